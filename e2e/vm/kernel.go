package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kernel is a kernel of Debian that was unpacked.
type kernel struct {
	image   string // that boots
	modules string // the folder lib/modules
	version string // below it
}

// wanted are the parts of the package that are kept: the rest are drivers of devices that the
// machine does not have.
var wanted = []string{
	"./boot/vmlinuz-*", "./lib/modules/*/modules.*", "./lib/modules/*/kernel/net", "./lib/modules/*/kernel/lib", "./lib/modules/*/kernel/crypto",
	"./lib/modules/*/kernel/fs", "./lib/modules/*/kernel/drivers/net", "./lib/modules/*/kernel/drivers/virtio", "./lib/modules/*/kernel/arch",
}

// tools are programs that are needed, by the packages that have them.
var tools = map[string]string{"qemu-system-x86_64": "qemu-system-x86", "depmod": "kmod"}

// install installs what is missing.
func install(ctx context.Context) error {
	var missing []string
	for program, pkg := range tools {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	what := strings.Join(missing, " ")
	if os.Geteuid() != 0 {
		return fmt.Errorf("the virtual machine needs the packages %s: install them", what)
	}
	fmt.Fprintln(os.Stderr, "vm: installing", what)
	add := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)
	if command(ctx, "apt-get", add...) == nil {
		return nil
	}
	return errors.Join(command(ctx, "apt-get", "update", "-qq"), command(ctx, "apt-get", add...))
}

// command runs a program, and returns what it said where it failed.
func command(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, "", name, args...)
	return err
}

func output(ctx context.Context, folder, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// fetch returns the kernel that a package depends on, or is. It is fetched once.
func fetch(ctx context.Context, pkg, cache string) (kernel, error) {
	folder := filepath.Join(cache, pkg)
	if k, err := found(folder); err == nil {
		return k, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return kernel{}, err
	}
	work, err := os.MkdirTemp(cache, "fetch-")
	if err != nil {
		return kernel{}, err
	}
	defer os.RemoveAll(work)
	if err := unpack(ctx, pkg, work); err != nil {
		return kernel{}, fmt.Errorf("fetch the kernel %s: %w", pkg, err)
	}
	if err := os.RemoveAll(folder); err != nil {
		return kernel{}, err
	}
	if err := os.Rename(filepath.Join(work, "system"), folder); err != nil {
		return kernel{}, err
	}
	return found(folder)
}

func unpack(ctx context.Context, pkg, work string) error {
	depends, err := output(ctx, "", "apt-cache", "depends", pkg)
	if err != nil || depends == "" {
		if err := command(ctx, "apt-get", "update", "-qq"); err != nil {
			return err
		}
		if depends, err = output(ctx, "", "apt-cache", "depends", pkg); err != nil {
			return err
		}
	}
	image := imageOf(pkg, depends)
	fmt.Fprintln(os.Stderr, "vm: fetching", image)
	if _, err := output(ctx, work, "apt-get", "download", image); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages: %w", image, len(files), err)
	}
	const script = `mkdir system && dpkg-deb --fsys-tarfile "$0" | tar -x -C system --wildcards "$@"`
	if _, err := output(ctx, work, "sh", append([]string{"-ec", script, files[0]}, wanted...)...); err != nil {
		return err
	}
	k, err := found(filepath.Join(work, "system"))
	if err != nil {
		return err
	}
	return command(ctx, "depmod", "-b", filepath.Join(work, "system"), k.version)
}

// imageOf is the package of the kernel that a package depends on, or the package itself.
func imageOf(pkg, depends string) string {
	for line := range strings.Lines(depends) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(name, "linux-image-") {
			return name
		}
	}
	return pkg
}

// found looks for a kernel in a folder.
func found(folder string) (kernel, error) {
	images, err := filepath.Glob(filepath.Join(folder, "boot", "vmlinuz-*"))
	if err != nil || len(images) != 1 {
		return kernel{}, fmt.Errorf("%s has %d kernels: %w", folder, len(images), errors.Join(err, os.ErrNotExist))
	}
	k := kernel{image: images[0], modules: filepath.Join(folder, "lib", "modules"), version: strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-")}
	_, err = os.Stat(filepath.Join(k.modules, k.version))
	return k, err
}
