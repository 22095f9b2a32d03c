"""What an engine serves to who watches it: metrics, health, readiness, status; with a dashboard and alert rules."""
