package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/kubernetes/scheme"
)

const filled = "filled" // the namespace of the pods that make up the number

// fill brings the number of pods to total. Where the store can be written to
// beside the API (etcd), the bytes of a pod that went through it are written
// again under other names: upstream's server would need minutes.
func (s *apiServer) fill(ctx context.Context, total, workers int) error {
	have, err := s.countPods(ctx)
	if err != nil {
		return err
	}
	if n := total - have; n > 0 {
		if s.etcd == "" {
			_, err = s.create(ctx, filled, "fill", n, workers)
		} else if _, err = s.create(ctx, filled, "sample", 1, 1); err == nil {
			err = s.fillEtcd(ctx, n-1, workers)
		}
	}
	if err != nil {
		return err
	}
	return s.awaitPods(ctx, total)
}

// countPods asks how many pods there are in all namespaces.
func (s *apiServer) countPods(ctx context.Context) (int, error) {
	client, err := s.client()
	if err != nil {
		return 0, err
	}
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}

// awaitPods waits until the server knows of so many: its cache may lag behind
// its store.
func (s *apiServer) awaitPods(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		n, err := s.countPods(ctx)
		if err != nil {
			return err
		}
		if n == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d pods were made, %d are there", s.name, want, n)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *apiServer) fillEtcd(ctx context.Context, n, workers int) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.etcd}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer client.Close()
	const place = "/registry/pods/" + filled + "/"
	stored, err := client.Get(ctx, place+"sample-0")
	if err != nil {
		return err
	}
	if len(stored.Kvs) != 1 {
		return errors.New("etcd does not have the pod that was created")
	}
	codec := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	obj, _, err := codec.Decode(stored.Kvs[0].Value, nil, nil)
	if err != nil {
		return err
	}
	sample, ok := obj.(*corev1.Pod)
	if !ok {
		return fmt.Errorf("etcd has a %T for a pod", obj)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	var faults failures
	for range workers {
		wg.Go(func() {
			for !faults.any() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				pod := sample.DeepCopy()
				pod.Name, pod.UID = fmt.Sprintf("fill-%d", i), uuid.NewUUID()
				var data bytes.Buffer
				err := codec.Encode(pod, &data)
				if err == nil {
					_, err = client.Put(ctx, place+pod.Name, data.String())
				}
				faults.add(err)
			}
		})
	}
	wg.Wait()
	return faults.all()
}
