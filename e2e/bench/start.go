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
		most("serve to /readyz ok, first start", "ms", goalFirst, first...).With("keys and certificates made, modules compiled"),
	}, nil
}

func startTwice(ctx context.Context, repo, dir string) (first, again float64, err error) {
	for i, took := range []*float64{&first, &again} {
		c, err := cluster.Start(ctx, cluster.Options{
			Name: "bench-start", Config: filepath.Join(repo, "configs", "standalone.yaml"), Data: filepath.Join(dir, "d"), Cold: true,
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
