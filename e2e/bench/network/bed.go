package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"pintle.dev/pintle/e2e/cluster"
)

// bed is a cluster with an ingress in a network of its own, and a folder for what is beside it.
type bed struct {
	network *cluster.Network
	cluster *cluster.Cluster
	dir     string
}

// edits make configs/standalone.yaml the bed's: names outside of the cluster are asked from the
// benchmark. The ingress starts with the Ingress that it is measured by.
var edits = map[string]string{
	"\n  - name: dns\n    network: true\n": "\n  - name: dns\n    network: true\n    config:\n      coredns: {upstreamNameservers: [\"" + upstreamAddress + "\"]}\n",
}

func startBed(ctx context.Context, name string) (_ *bed, err error) {
	b := &bed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.stop())
		}
	}()
	if b.network, err = cluster.NewNetwork(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "ptb"); err != nil {
		return nil, err
	}
	repo, err := cluster.Repository()
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(repo, "configs", "standalone.yaml"))
	if err != nil {
		return nil, err
	}
	text := string(raw)
	for from, to := range edits {
		if strings.Count(text, from) != 1 {
			return nil, fmt.Errorf("configs/standalone.yaml does not have the lines %q once", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	config := filepath.Join(b.dir, "bed.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	b.cluster, err = cluster.Start(ctx, cluster.Options{Name: name, Config: config, Network: b.network})
	return b, err
}

func (b *bed) stop() error {
	var err error
	if b.cluster != nil {
		err = b.cluster.Stop(syscall.SIGTERM)
	}
	if b.dir != "" {
		err = errors.Join(err, os.RemoveAll(b.dir))
	}
	return errors.Join(err, b.network.Close())
}
