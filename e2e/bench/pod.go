package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/e2e/cluster"
)

const (
	podSamples = 20
	goalPod    = 150 // ms over the three calls by hand
	podImage   = "docker.io/pintle/pause:1"
)

// pod measures how much later a pod Runs than its containers could: pods by
// the API and sandboxes by hand take turns on the same containerd.
func pod(ctx context.Context, _ options) (_ []figure, err error) {
	network, err := cluster.NewNetwork()
	if err != nil {
		return nil, fmt.Errorf("containers need root: %w", err)
	}
	defer network.Close()
	c, err := cluster.Start(ctx, cluster.Options{
		Name: "bench-pod", Config: "configs/standalone.yaml", Network: network,
		Set: []string{"node.podCIDR=10.203.0.0/24", "node.clusterCIDRs=[10.203.0.0/16]", "api.serviceCIDR=10.99.0.0/16"},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Stop(syscall.SIGTERM)) }()
	client, _, err := clientOf(c)
	if err != nil {
		return nil, err
	}
	if err := awaitServiceAccount(ctx, client); err != nil {
		return nil, err
	}
	if _, err := awaitNodes(ctx, client, 1); err != nil {
		return nil, err
	}
	socket, err := findSocket(c.Data)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	runtime := runtimeapi.NewRuntimeServiceClient(conn)
	w, err := watchPods(ctx, client)
	if err != nil {
		return nil, err
	}
	defer w.stop()
	var api, hand []float64
	for i := range podSamples + 1 {
		byHand, err := sandboxByHand(ctx, runtime, fmt.Sprintf("hand-%d", i))
		if err != nil {
			return nil, err
		}
		byAPI, err := podByAPI(ctx, client, w, i)
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first of each warms both
			api, hand = append(api, byAPI), append(hand, byHand)
		}
	}
	a, h := most("pod create to Running, median of 20", "ms", 0, median(api)), most("three CRI calls by hand, median of 20", "ms", 0, median(hand))
	return []figure{most("pod create to Running beyond CRI by hand", "ms", goalPod, a.Value-h.Value), a, h}, nil
}

// podByAPI creates a pod, waits until it Runs and removes it.
func podByAPI(ctx context.Context, client kubernetes.Interface, w *podWatch, i int) (float64, error) {
	p := samplePod(fmt.Sprintf("bench-%d", i))
	p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = podImage, corev1.PullIfNotPresent
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	begin := time.Now()
	if _, err := client.CoreV1().Pods(namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	at, err := w.await(ctx, i+1, i+1)
	if err != nil {
		return 0, err
	}
	return float64(at.running.Sub(begin).Microseconds()) / 1000, nil
}

// sandboxByHand does what a pod of one container comes down to, and removes it.
func sandboxByHand(ctx context.Context, client runtimeapi.RuntimeServiceClient, name string) (float64, error) {
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Namespace: namespace, Uid: name},
		LogDirectory: os.TempDir(), Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	begin := time.Now()
	s, err := client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return 0, fmt.Errorf("RunPodSandbox by hand: %w", err)
	}
	k, err := client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: s.PodSandboxId, SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
			Image:    &runtimeapi.ImageSpec{Image: podImage},
			// As the agent's by default: the same work on both sides.
			Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}}},
		},
	})
	if err != nil {
		return 0, fmt.Errorf("CreateContainer by hand: %w", err)
	}
	if _, err := client.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: k.ContainerId}); err != nil {
		return 0, fmt.Errorf("StartContainer by hand: %w", err)
	}
	took := float64(time.Since(begin).Microseconds()) / 1000
	status, err := client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: k.ContainerId})
	if err != nil {
		return 0, err
	}
	if state := status.Status.State; state != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return 0, fmt.Errorf("container made by hand is %s", state)
	}
	if _, err := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.PodSandboxId}); err != nil {
		return 0, err
	}
	_, err = client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.PodSandboxId})
	return took, err
}

// findSocket finds the bundled containerd's socket below the data directory.
func findSocket(data string) (string, error) {
	var found string
	err := filepath.WalkDir(data, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what ends meanwhile is not the socket
		}
		if d.Name() == "containerd.sock" {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if found == "" {
		return "", errors.Join(fmt.Errorf("no containerd.sock below %s", data), err)
	}
	return found, nil
}
