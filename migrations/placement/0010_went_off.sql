-- A VM that went off by itself: its guest shut down, or its host was restarted.
INSERT INTO power_transitions VALUES ('running', 'stopped');
