package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/e2e/cluster"
)

const goalCreate = 2500 // pods a second

// apiOnly is a kernel that stores and serves: what upstream's server with etcd
// does without its other components.
const apiOnly = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
dataDir: .data-bench
api: {bindAddress: 127.0.0.1}
scheduler: {enabled: false}
node: {enabled: false}
`

func isExists(err error) bool { return apierrors.IsAlreadyExists(err) }

// create measures pod creates that are on the disk when they are acknowledged.
func create(ctx context.Context, o options) ([]figure, error) {
	var rates, kernel, client []float64
	for range o.rounds {
		c, err := createRound(ctx, o)
		if err != nil {
			return nil, err
		}
		rates, kernel, client = append(rates, c.rate), append(kernel, c.kernel), append(client, c.client)
	}
	return []figure{
		least("durable pod creates", "pods/s", goalCreate, rates...).With("%d pods, %d workers, all there after kill -9", o.creates, o.workers),
		most("processor time of the kernel a create", "µs", 0, kernel...),
		most("processor time of the clients a create", "µs", 0, client...),
	}, nil
}

// created is what one round of create measured: pods a second, and processor
// time a pod in microseconds.
type created struct{ rate, kernel, client float64 }

func createRound(ctx context.Context, o options) (out created, err error) {
	dir, config, err := writeConfig(apiOnly)
	defer os.RemoveAll(dir)
	if err != nil {
		return out, err
	}
	opts := cluster.Options{SuperAdmin: true, Name: "bench-create", Config: config, Data: filepath.Join(dir, "d")}
	c, err := cluster.Start(ctx, opts)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	client, cfg, err := clientOf(c)
	if err != nil {
		return out, err
	}
	if err := awaitServiceAccount(ctx, client); err != nil {
		return out, err
	}
	name := func(i int) string { return fmt.Sprintf("bench-%d", i) }
	warm := func(i int) string { return fmt.Sprintf("warm-%d", i) }
	if err := createPods(ctx, client, 500, o.workers, warm); err != nil {
		return out, err
	}
	done := o.startProfile(cfg, "create")
	kernel, own := processorTime(c.Pid()), processorTime(os.Getpid())
	begin := time.Now()
	if err := createPods(ctx, client, o.creates, o.workers, name); err != nil {
		return out, err
	}
	out.rate = float64(o.creates) / time.Since(begin).Seconds()
	out.kernel = float64((processorTime(c.Pid()) - kernel).Microseconds()) / float64(o.creates)
	out.client = float64((processorTime(os.Getpid()) - own).Microseconds()) / float64(o.creates)
	done()
	// What was acknowledged has to outlive the process.
	c.Kill()
	if c, err = cluster.Start(ctx, opts); err != nil {
		return out, fmt.Errorf("after kill -9: %w", err)
	}
	if client, _, err = clientOf(c); err != nil {
		return out, err
	}
	return out, countPods(ctx, client, o.creates+500)
}

func countPods(ctx context.Context, client kubernetes.Interface, want int) error {
	got, next := 0, ""
	for {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 2000, Continue: next})
		if err != nil {
			return err
		}
		got += len(list.Items)
		if next = list.Continue; next == "" {
			break
		}
	}
	if got != want {
		return fmt.Errorf("%d pods were acknowledged, %d are there", want, got)
	}
	return nil
}
