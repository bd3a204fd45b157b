"""What several planners share; nothing here is a planner."""
