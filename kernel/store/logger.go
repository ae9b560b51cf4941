package store

import (
	"fmt"
	"log/slog"
	"strings"
)

// badgerLogger hands Badger's messages to the kernel's log. Its information is detail to us.
type badgerLogger struct{ log *slog.Logger }

func (l badgerLogger) Errorf(format string, args ...any)   { l.log.Error(l.text(format, args)) }
func (l badgerLogger) Warningf(format string, args ...any) { l.log.Warn(l.text(format, args)) }
func (l badgerLogger) Infof(string, ...any)                {}
func (l badgerLogger) Debugf(string, ...any)               {}

func (l badgerLogger) text(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
