package localstorage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/kernel/node/cri"
)

// Usage sums up the blocks of a file, or of all below a folder, each file once. What vanishes meanwhile counts nothing.
func Usage(ctx context.Context, path string) (int64, error) {
	var sum int64
	type file struct{ dev, ino uint64 }
	seen := map[file]bool{}
	err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			if s.Nlink > 1 && !info.IsDir() {
				id := file{uint64(s.Dev), s.Ino} //nolint:unconvert // of 32 bits on some processors
				if seen[id] {
					return nil
				}
				seen[id] = true
			}
			sum += s.Blocks * 512
		}
		return nil
	})
	return sum, err
}

// WritableLayer is the folder that holds what a running container wrote to its root file system, where the runtime tells
// its process and that file system is an overlay; otherwise it is empty.
func WritableLayer(ctx context.Context, client *cri.Client, containerID string) (string, error) {
	st, err := client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: containerID, Verbose: true})
	if err != nil {
		return "", err
	}
	var info struct {
		PID int `json:"pid"`
	}
	if json.Unmarshal([]byte(st.Info["info"]), &info) != nil || info.PID <= 0 {
		return "", nil
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", info.PID))
	if err != nil {
		return "", nil // it has just ended
	}
	return upper(string(mounts)), nil
}

// upper is the upper folder of the overlay at / of a mountinfo.
func upper(mountinfo string) string {
	var found string
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, fs := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || fields[4] != "/" || len(fs) < 3 || fs[0] != "overlay" {
			continue
		}
		for option := range strings.SplitSeq(fs[2], ",") {
			if dir, ok := strings.CutPrefix(option, "upperdir="); ok && filepath.IsAbs(dir) {
				found = dir // the last one lies on top
			}
		}
	}
	return found
}
