package iptables

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/plugins/proxies/serviceport"
)

// holder keeps node ports from being taken by other programs. Its sockets are
// bound and never listen: a connection that no rule catches is refused.
type holder struct {
	held map[heldPort]int // file descriptor
}

type heldPort struct {
	protocol string
	port     int
}

func newHolder() *holder { return &holder{held: map[heldPort]int{}} }

// hold binds a port once; protocols without sockets of their own are not held.
func (h *holder) hold(id serviceport.ID, protocol string, port int) error {
	key := heldPort{protocol, port}
	if _, ok := h.held[key]; ok {
		return nil
	}
	kind := unix.SOCK_STREAM
	switch protocol {
	case "TCP":
	case "UDP":
		kind = unix.SOCK_DGRAM
	default:
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("hold node port %d of %s: %w", port, id, err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port}); err != nil {
		return errors.Join(fmt.Errorf("hold node port %d of %s: %w", port, id, err), unix.Close(fd))
	}
	h.held[key] = fd
	return nil
}

// release lets go of the ports that no service has (requirement PIT-38).
func (h *holder) release(ports map[serviceport.ID]*serviceport.Port) {
	wanted := map[heldPort]bool{}
	for _, p := range ports {
		wanted[heldPort{p.Protocol, p.NodePort}] = true
	}
	for key, fd := range h.held {
		if !wanted[key] {
			unix.Close(fd)
			delete(h.held, key)
		}
	}
}

func (h *holder) close() { h.release(nil) }
