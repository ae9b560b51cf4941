package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// pinned is the label of images that the node agent's garbage collection
// passes over: no registry holds what is built with the project.
const pinned = "io.cri-containerd.pinned=pinned"

// importImages brings the archives of a folder into the daemon. An archive
// that was imported before, by its digest, is passed over; the sandbox image
// has to be among them.
func importImages(ctx context.Context, l layout, dir string) error {
	archives, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return fmt.Errorf("list image archives in %s: %w", dir, err)
	}
	if !slices.ContainsFunc(archives, func(a string) bool { return filepath.Base(a) == "pause.tar" }) {
		return fmt.Errorf("no sandbox image: %s is missing; `make build` writes it", filepath.Join(dir, "pause.tar"))
	}
	done := filepath.Join(l.root, "imported")
	if err := os.MkdirAll(done, 0o700); err != nil {
		return fmt.Errorf("import images: %w", err)
	}
	for _, archive := range archives {
		digest, err := digestOf(archive)
		if err != nil {
			return fmt.Errorf("import image %s: %w", archive, err)
		}
		marker := filepath.Join(done, digest)
		if _, err := os.Stat(marker); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("import image %s: %w", archive, err)
		}
		cmd := exec.CommandContext(ctx, filepath.Join(l.tools, "ctr"), "--address", l.socket, "--namespace", "k8s.io",
			"images", "import", "--local", "--label", pinned, archive)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("import image %s: %w: %s", archive, err, strings.TrimSpace(string(out)))
		}
		if err := os.WriteFile(marker, nil, 0o600); err != nil {
			return fmt.Errorf("import image %s: %w", archive, err)
		}
	}
	return nil
}

func digestOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
