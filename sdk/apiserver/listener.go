package apiserver

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
)

// listen opens the socket of a server in the folder that the kernel made for this
// process. Names of plugins may be long, and paths of sockets may not.
func listen(name string, kernel uint32, log *slog.Logger) (*listener, error) {
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	if dir == "" {
		return nil, fmt.Errorf("API server %s: PLUGIN_UNIX_SOCKET_DIR is not set: the kernel sets it", name)
	}
	sum := sha256.Sum256([]byte(name))
	path := filepath.Join(dir, "api-"+hex.EncodeToString(sum[:4]))
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("API server %s: %w", name, err)
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("API server %s: %w", name, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("API server %s: %w", name, err)
	}
	return &listener{Listener: ln, name: filepath.Base(path), kernel: kernel, log: log}, nil
}

// listener takes connections of one user.
type listener struct {
	net.Listener
	name   string
	kernel uint32
	log    *slog.Logger
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peer(conn)
		if err == nil && uid == l.kernel {
			return conn, nil
		}
		conn.Close()
		l.log.Warn("a connection of somebody else than the kernel is refused", "user", uid, "error", err)
	}
}
