package eviction

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Observation is what there is of a signal, and what of it is left.
type Observation struct{ Available, Capacity int64 }

// Observations are by signal; one that could not be measured is not there.
type Observations map[Signal]Observation

// FileSystem measures the file system that holds a path.
func (o Observations) FileSystem(path string, bytes, inodes Signal) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("measure file system of %s: %w", path, err)
	}
	o[bytes] = Observation{int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize}
	if st.Files > 0 { // some file systems have as many as they want
		o[inodes] = Observation{int64(st.Ffree), int64(st.Files)}
	}
	return nil
}

// Machine measures memory and process ids.
func (o Observations) Machine(procfs string) error {
	text, err := os.ReadFile(procfs + "/meminfo")
	if err != nil {
		return fmt.Errorf("measure memory: %w", err)
	}
	values := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 {
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				values[fields[0]] = n << 10
			}
		}
	}
	if values["MemTotal:"] > 0 {
		o[MemoryAvailable] = Observation{values["MemAvailable:"], values["MemTotal:"]}
	}
	// The fourth field of loadavg is running/all.
	load, err := os.ReadFile(procfs + "/loadavg")
	if err != nil {
		return fmt.Errorf("measure process ids: %w", err)
	}
	fields := strings.Fields(string(load))
	if len(fields) < 4 {
		return fmt.Errorf("measure process ids: %s/loadavg holds %q", procfs, load)
	}
	_, all, _ := strings.Cut(fields[3], "/")
	used, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return fmt.Errorf("measure process ids: %w", err)
	}
	var most int64
	for _, file := range []string{"/sys/kernel/pid_max", "/sys/kernel/threads-max"} {
		if text, err := os.ReadFile(procfs + file); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 && (most == 0 || n < most) {
				most = n
			}
		}
	}
	if most > 0 {
		o[PIDAvailable] = Observation{max(most-used, 0), most}
	}
	return nil
}
