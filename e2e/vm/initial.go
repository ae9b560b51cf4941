package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/e2e/vm/orders"
)

// rootModules are what mounting this machine's root takes.
var rootModules = []string{"virtio_pci", "9pnet_virtio", "9p", "overlay"}

// initial writes the initial file system into a folder, and returns its file.
func initial(ctx context.Context, k kernel, o orders.Orders, folder string) (string, error) {
	guest := filepath.Join(folder, "guest")
	if err := compile(ctx, "build", "-o", guest, "pintle.dev/pintle/e2e/vm/guest"); err != nil {
		return "", err
	}
	base := filepath.Join(k.modules, k.version)
	modules, err := withNeeded(filepath.Join(base, "modules.dep"), rootModules)
	if err != nil {
		return "", err
	}
	name := filepath.Join(folder, "initial.cpio")
	f, err := os.Create(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	a := newArchive(f)
	for _, dir := range []string{"proc", "dev", "host", "memory", "root"} {
		if err := a.dir(dir); err != nil {
			return "", err
		}
	}
	for _, m := range modules {
		from := filepath.Join(base, m)
		if strings.HasSuffix(m, ".xz") { // as newer packages have them
			plain := filepath.Join(folder, strings.TrimSuffix(filepath.Base(m), ".xz"))
			if err := command(ctx, "sh", "-c", `xz -dc "$0" >"$1"`, from, plain); err != nil {
				return "", err
			}
			from = plain
		}
		to := "modules/" + strings.TrimSuffix(filepath.Base(m), ".xz")
		if err := a.file(to, from); err != nil {
			return "", err
		}
		o.Load = append(o.Load, "/"+to)
	}
	list := filepath.Join(folder, "orders.json")
	return name, errors.Join(o.Write(list), a.file(strings.TrimPrefix(orders.File, "/"), list), a.file("init", guest), a.end(), f.Close())
}

// withNeeded returns the files of modules, below the folder of modules.dep, each after those that
// it needs.
func withNeeded(dep string, names []string) ([]string, error) {
	f, err := os.Open(dep)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	needs := map[string][]string{} // by file; the file itself first
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if file, list, ok := strings.Cut(lines.Text(), ":"); ok {
			needs[moduleName(file)] = append([]string{file}, strings.Fields(list)...)
		}
	}
	var out []string
	for _, name := range names {
		files, ok := needs[name]
		if !ok {
			return nil, fmt.Errorf("the kernel has no module %s: %s", name, dep)
		}
		// A module stands before those that it needs, and these before those that they need.
		for _, file := range slices.Backward(files) {
			if !slices.Contains(out, file) {
				out = append(out, file)
			}
		}
	}
	return out, nil
}

// moduleName is how a module is called whose file is known.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}
