"""What the YAML files say, as frozen objects in SI units."""

from perfmodel.specs.hardware import Hardware
from perfmodel.specs.strategy import Strategy
from perfmodel.specs.variation import Variation
from perfmodel.specs.workload import Workload

__all__ = ["Hardware", "Strategy", "Variation", "Workload"]
