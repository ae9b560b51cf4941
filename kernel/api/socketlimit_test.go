package api

import (
	"net"
	"path/filepath"
	"testing"
)

// A connection above the limit waits until another is closed, and that is told.
func TestFullSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	inner, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 10)
	ln := limitListener(inner, 2, func() { told <- struct{}{} })
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	for range 3 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, second := <-accepted, <-accepted
	<-told
	select {
	case <-accepted:
		t.Fatal("a third connection of two was accepted")
	default:
	}
	for range 2 { // the second close gives no second place
		_ = first.Close()
	}
	third := <-accepted
	<-told
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("no error after the listener was closed")
	}
	_, _ = second.Close(), third.Close()
}
