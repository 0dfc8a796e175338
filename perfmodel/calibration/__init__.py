"""Constants of a device, fitted to measurements and written into its YAML."""
