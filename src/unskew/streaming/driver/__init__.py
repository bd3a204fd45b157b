"""What runs in the driver: starting a query, then deciding after each batch what the next one does."""
