"""What durable captures are measured with: who writes, and how many callers at once are driven and timed."""
