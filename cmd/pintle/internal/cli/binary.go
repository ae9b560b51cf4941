package cli

import (
	"fmt"
	"os"
	"path/filepath"
)

// Binary is the path of this program without symbolic links: bundles are looked
// for beside it.
func Binary() (string, error) {
	exe, err := os.Executable()
	if err == nil {
		exe, err = filepath.EvalSymlinks(exe)
	}
	if err != nil {
		return "", fmt.Errorf("find this program: %w", err)
	}
	return exe, nil
}
