package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"pintle.dev/pintle/e2e/cluster"
)

// readyLine is what serve prints when /readyz is ok.
var readyLine = regexp.MustCompile(`^ready in ([0-9]+) ms`)

// Goals of a start, in milliseconds.
const (
	goalStart = 500
	goalFirst = 5000
)

// start measures a first start with an empty data directory and no compiled
// module anywhere, and later ones on what the first has left.
func start(ctx context.Context, o options) ([]figure, error) {
	repo, err := cluster.Repository()
	if err != nil {
		return nil, err
	}
	var first, again []float64
	for range o.rounds {
		dir, err := os.MkdirTemp("", "ptb")
		if err != nil {
			return nil, err
		}
		f, a, err := startTwice(ctx, repo, dir)
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			return nil, err
		}
		first, again = append(first, f), append(again, a)
	}
	return []figure{
		most("serve to /readyz ok, modules compiled", "ms", goalStart, again...),
		most("serve to /readyz ok, first start", "ms", goalFirst, first...).note("keys and certificates made, modules compiled"),
	}, nil
}

func startTwice(ctx context.Context, repo, dir string) (first, again float64, err error) {
	// Plugins as they are installed but not compiled: without the caches that
	// make build leaves beside them.
	plugins := filepath.Join(dir, "plugins")
	if err := copyBundles(filepath.Join(repo, "bin", "plugins"), plugins); err != nil {
		return 0, 0, err
	}
	config, err := withDirectory(filepath.Join(repo, "configs", "standalone.yaml"), filepath.Join(dir, "standalone.yaml"), plugins)
	if err != nil {
		return 0, 0, err
	}
	for i, took := range []*float64{&first, &again} {
		c, err := cluster.Start(ctx, cluster.Options{
			Name: "bench-start", Config: config, Data: filepath.Join(dir, "d"),
			Set: []string{"node.enabled=false", "api.bindAddress=127.0.0.1"},
		})
		if err != nil {
			return 0, 0, err
		}
		if *took, err = readyAfter(c); err == nil {
			err = readyz(ctx, c)
		}
		if err := errors.Join(err, c.Stop(syscall.SIGTERM)); err != nil {
			return 0, 0, fmt.Errorf("start %d: %w", i+1, err)
		}
	}
	return first, again, nil
}

// readyAfter is the time that serve itself printed.
func readyAfter(c *cluster.Cluster) (float64, error) {
	for _, l := range c.Screen() {
		if m := readyLine.FindStringSubmatch(l); m != nil {
			return strconv.ParseFloat(m[1], 64)
		}
	}
	return 0, errors.New("no line \"ready in N ms\"")
}

// readyz asserts that what the printed line says is true.
func readyz(ctx context.Context, c *cluster.Cluster) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answered %s after serve said ready", resp.Status)
	}
	return nil
}

// copyBundles links every bundle's files, without hidden ones, into dst.
func copyBundles(src, dst string) error {
	bundles, err := os.ReadDir(src)
	if err != nil {
		return fmt.Errorf("%w; run make build", err)
	}
	for _, b := range bundles {
		files, err := os.ReadDir(filepath.Join(src, b.Name()))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(dst, b.Name()), 0o755); err != nil {
			return err
		}
		for _, f := range files {
			if strings.HasPrefix(f.Name(), ".") {
				continue
			}
			from, to := filepath.Join(src, b.Name(), f.Name()), filepath.Join(dst, b.Name(), f.Name())
			if err := os.Link(from, to); err != nil {
				raw, err := os.ReadFile(from) // another file system
				if err != nil {
					return err
				}
				if err := os.WriteFile(to, raw, 0o755); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// withDirectory writes a configuration that looks for plugins in one folder.
func withDirectory(src, dst, plugins string) (string, error) {
	raw, err := os.ReadFile(src)
	if err != nil {
		return "", err
	}
	const key = "\nplugins:\n"
	text := strings.Replace(string(raw), key, key+"  directories: ["+strconv.Quote(plugins)+"]\n", 1)
	if text == string(raw) {
		return "", fmt.Errorf("%s has no key plugins", src)
	}
	return dst, os.WriteFile(dst, []byte(text), 0o600)
}
