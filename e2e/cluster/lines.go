package cluster

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
)

// lines collects what a process writes, line by line.
type lines struct {
	mu      sync.Mutex
	list    []string
	rest    []byte
	changed chan struct{}
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	if used := bytes.LastIndexByte(l.rest, '\n') + 1; used > 0 {
		l.list = append(l.list, strings.Split(string(l.rest[:used-1]), "\n")...)
		l.rest = l.rest[used:]
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return len(p), nil
}

func (l *lines) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.list...)
}

// await waits until the lines please the condition, or the process has ended.
func (l *lines) await(ctx context.Context, exited <-chan struct{}, ok func([]string) bool) error {
	for {
		l.mu.Lock()
		changed, list := l.changed, append([]string{}, l.list...)
		l.mu.Unlock()
		if ok(list) {
			return nil
		}
		select {
		case <-changed:
		case <-exited:
			if ok(l.all()) {
				return nil
			}
			return errors.New("the process ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
