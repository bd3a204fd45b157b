"""What people look at: one look for all HTML pages, the charts in them, and the demo."""
