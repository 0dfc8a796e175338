"""Work x machine -> time, memory, money and energy."""
