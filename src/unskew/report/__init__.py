"""Reports for people: HTML pages in one style, their charts, the same in a terminal, and the watch page."""
