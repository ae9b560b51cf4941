package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processes lists, with their arguments, the living processes that a kernel
// started: those of its session, and those of its plugins behind walls. These have
// sessions of their own; the folder that their socket has to be in tells whose
// they are. What a runtime plugin starts for good, containerd and its shims, is
// not among them.
func Processes(kernel int, data string) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	var list []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if session, alive := sessionOf(pid); alive && (session == kernel || behindWalls(pid, data)) {
			list = append(list, describe(pid))
		}
	}
	return list
}

// sessionOf is the session of a process, and whether it is alive.
func sessionOf(pid int) (session int, alive bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false // no process, or gone
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 4 || fields[0] == "Z" {
		return 0, false
	}
	session, err = strconv.Atoi(fields[3])
	return session, err == nil
}

// behindWalls reports whether a process is one of a plugin with a user of its own,
// of the kernel with this data directory.
func behindWalls(pid int, data string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00PLUGIN_UNIX_SOCKET_DIR="+sharedDirectory(data)+"/"))
}

// sharedDirectory is outside of a kernel's data directory: plugins with a user of
// their own have their sockets there.
func sharedDirectory(data string) string {
	if abs, err := filepath.Abs(data); err == nil {
		data = abs
	}
	sum := sha256.Sum256([]byte(data))
	return "/run/pintle-plugins-" + hex.EncodeToString(sum[:4])
}
