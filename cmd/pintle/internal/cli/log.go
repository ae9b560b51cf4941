package cli

import (
	"log/slog"
	"os"
)

// Warnings is a logger on standard error of what goes wrong with plugins that run in this program.
func Warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}
