"""What `import gpud` offers to programs: turns on a GPU that several jobs share. Standard library only."""
