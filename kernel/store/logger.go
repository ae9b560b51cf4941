package store

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
)

// faults hands Badger's messages to the kernel's log, and notes the failures that Badger tells nobody but the log: of a
// sync and of a read of the value log. Badger's information is detail to us.
type faults struct {
	log        *slog.Logger
	sync, read atomic.Pointer[string]
}

// How Badger's messages begin.
const (
	valueLogSyncFailed = "Error while curlf sync"
	valueLogReadFailed = "Unable to read: Key"
	valueLogReadMore   = "Key: %v, Version : %v"
)

func (l *faults) Errorf(format string, args ...any) {
	text := l.text(format, args)
	switch {
	case strings.HasPrefix(format, valueLogSyncFailed):
		l.sync.Store(&text)
	case strings.HasPrefix(format, valueLogReadFailed):
		// The reader says it, with the key in words.
		if len(args) > 0 {
			cause := fmt.Sprint(args[len(args)-1])
			l.read.Store(&cause)
		}
		return
	case strings.HasPrefix(format, valueLogReadMore):
		return
	}
	l.log.Error(text)
}

// unread is what the last read of the value log that failed met.
func (l *faults) unread() error {
	if text := l.read.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

func (l *faults) Warningf(format string, args ...any) { l.log.Warn(l.text(format, args)) }
func (l *faults) Infof(string, ...any)                {}
func (l *faults) Debugf(string, ...any)               {}

// failedSync is the sync that failed, nil when all are well.
func (l *faults) failedSync() error {
	if text := l.sync.Load(); text != nil {
		return errors.New(*text)
	}
	return nil
}

func (l *faults) text(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
