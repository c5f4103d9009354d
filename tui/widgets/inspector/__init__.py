"""The right column: figures, cell map and history. The door is `Inspector`; the map screen shows `MapPanel` alone."""
