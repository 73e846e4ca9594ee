package main

import (
	"io"
	"log/slog"

	"github.com/batchbot/batchbot/config"
)

// newLogger makes the logger of a program. The settings are validated: their values are among those handled here.
func newLogger(settings config.Log, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(settings.Level)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if settings.Format == "text" {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}
