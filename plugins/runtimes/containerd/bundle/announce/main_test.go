package main

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

func TestAnnouncement(t *testing.T) {
	got := announcement(net.HardwareAddr{2, 3, 4, 5, 6, 7}, netip.MustParseAddr("10.1.2.3"))
	want := []byte{0, 1, 8, 0, 6, 4, 0, 1, 2, 3, 4, 5, 6, 7, 10, 1, 2, 3, 0, 0, 0, 0, 0, 0, 10, 1, 2, 3}
	if !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
