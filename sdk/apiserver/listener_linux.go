package apiserver

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peer is the user that connected to a unix socket.
func peer(conn net.Conn) (uint32, error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("connection of %T", conn)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var option error
	if err := raw.Control(func(fd uintptr) { cred, option = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if option != nil {
		return 0, option
	}
	return cred.Uid, nil
}
