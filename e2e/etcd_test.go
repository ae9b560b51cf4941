package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/e2e/cluster"
)

// secondIP is the address of the second kernel, beside cluster.NodeIP.
const secondIP = "192.0.2.11"

// several is what kernels of one cluster share in a test.
type several struct {
	network *cluster.Network
	config  string
	program string // that of cluster.Options
}

// newSeveral starts etcd in a network with two addresses.
func newSeveral(t *testing.T) *several {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "several kernels on one machine need root, for addresses of their own")
	}
	if err := mayNamespace(); err != nil {
		skip(t, "this machine gives no network namespaces: "+err.Error())
	}
	binary(t, "pintle")
	network, err := cluster.NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { network.Close() })
	if err := network.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(secondIP), Mask: net.CIDRMask(24, 32)}})
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	etcd, err := cluster.StartEtcd(t.Context(), network, filepath.Join(dir, "etcd"), true)
	if errors.Is(err, cluster.ErrNoEtcd) {
		skip(t, cluster.ErrNoEtcd.Error())
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Stop)
	key := filepath.Join(dir, "cluster.key")
	if err := os.WriteFile(key, []byte(strings.Repeat("secret of the tests ", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := os.ReadFile("../configs/ha-etcd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The shipped configuration, with simulated nodes, shorter Leases and, in a network
	// of its own, without TLS (TestEtcdStopped has it).
	text := strings.NewReplacer("https://127.0.0.1:2379", etcd.URL, "    certFile: etcd-pki/client.crt\n", "", "    keyFile: etcd-pki/client.key\n", "", "    caFile: etcd-pki/ca.crt\n", "", "clusterKeyFile: cluster.key", "clusterKeyFile: "+key,
		"  - name: classic\n", "  - name: classic\n  - name: hollow\n    privileged: true\n").Replace(string(base))
	text += "hollow: {runtime: hollow}\nleaderElection: {leaseDuration: 6s, renewDeadline: 4s, retryPeriod: 1s}\n"
	config := filepath.Join(dir, "ha.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &several{network: network, config: config}
}

func (s *several) launch(t *testing.T, name, data, address string, nodes int) *env {
	t.Helper()
	e, err := launch(cluster.Options{Name: name, Config: s.config, Data: data, Network: s.network, Program: s.program, Set: []string{
		"api.bindAddress=" + address, "api.port=6443", "hollow.prefix=" + name + "-", fmt.Sprintf("hollow.nodes=%d", nodes),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// end stops a kernel in order. What it leaves behind is not looked at: the
// network is others' too.
func end(t *testing.T, e *env) {
	t.Helper()
	if err := e.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
		return
	}
	select {
	case <-e.Exited():
	case <-time.After(patience):
		e.Kill()
		t.Errorf("%s did not stop in time", e.Name)
	}
	if err := e.Err(); err != nil {
		t.Errorf("%s ended with %v\n%s", e.Name, err, e.Log(20))
	}
}

// holders are who has the Leases of scheduler and controllers.
func holders(ctx context.Context, client kubernetes.Interface) (scheduler, controllers string, err error) {
	get := func(name string) string {
		lease, e := client.CoordinationV1().Leases("kube-system").Get(ctx, name, metav1.GetOptions{})
		if e != nil || lease.Spec.HolderIdentity == nil {
			err = errors.Join(err, e)
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	return get("kube-scheduler"), get("kube-controller-manager"), err
}

// pods records each pod that was ever there, and where it was bound.
type pods struct {
	mu     sync.Mutex
	bound  map[string]string // UID → node
	faults []string
}

func (p *pods) see(pod *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := string(pod.UID)
	if was := p.bound[uid]; was != "" && pod.Spec.NodeName != was {
		p.faults = append(p.faults, fmt.Sprintf("pod %s was bound to %s and is on %q", pod.Name, was, pod.Spec.NodeName))
	}
	p.bound[uid] = pod.Spec.NodeName
}

// TestTwoKernelsOneEtcd: two kernels on one etcd are one cluster; when the one
// that leads is killed the other takes its work over, and no pod is lost, made
// twice or bound twice.
func TestTwoKernelsOneEtcd(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	data := t.TempDir()
	first := s.launch(t, "ha1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	var leader string
	eventually(t, func(ctx context.Context) error {
		scheduler, controllers, err := holders(ctx, first.client)
		if err != nil || scheduler == "" || scheduler != controllers {
			return fmt.Errorf("leaders %q and %q: %w", scheduler, controllers, err)
		}
		leader = scheduler
		return nil
	})
	second := s.launch(t, "ha2", filepath.Join(data, "2"), secondIP, 3)
	stopped := false
	defer func() {
		if t.Failed() {
			t.Logf("log of the second kernel ends with:\n%s", second.Log(40))
		}
		if !stopped {
			end(t, second)
		}
	}()

	// One cluster: an administrator of one is an administrator of the other.
	if string(first.cfg.CAData) != string(second.cfg.CAData) {
		t.Error("the kernels have different CAs")
	}
	swapped := *first.cfg
	swapped.Host = second.cfg.Host
	if client, err := kubernetes.NewForConfig(&swapped); err != nil {
		t.Error(err)
	} else if _, err := client.CoreV1().Namespaces().List(bound(t), metav1.ListOptions{}); err != nil {
		t.Errorf("the first kernel's certificate at the second: %v", err)
	}
	addresses := func(ctx context.Context) ([]string, error) {
		slice, err := second.client.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		var out []string
		for _, e := range slice.Endpoints {
			out = append(out, e.Addresses...)
		}
		slices.Sort(out)
		return out, nil
	}
	serve := func(want ...string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			if have, err := addresses(ctx); err != nil || !slices.Equal(have, want) {
				return fmt.Errorf("the kubernetes service leads to %v, want %v: %w", have, want, err)
			}
			return nil
		})
	}
	serve(cluster.NodeIP, secondIP)

	// Both hand out addresses at the same time, none twice.
	var wg sync.WaitGroup
	for i, e := range []*env{first, second} {
		wg.Go(func() {
			for n := range 20 {
				svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d-%d", i, n)}, Spec: corev1.ServiceSpec{
					Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}},
				}}
				if _, err := e.client.CoreV1().Services("default").Create(bound(t), svc, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	services, err := second.client.CoreV1().Services("default").List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ips, ports := map[string]string{}, map[int32]string{}
	for _, svc := range services.Items {
		if other := ips[svc.Spec.ClusterIP]; other != "" {
			t.Errorf("services %s and %s have one address", svc.Name, other)
		}
		ips[svc.Spec.ClusterIP] = svc.Name
		if p := svc.Spec.Ports[0].NodePort; p != 0 {
			if other := ports[p]; other != "" {
				t.Errorf("services %s and %s have one node port", svc.Name, other)
			}
			ports[p] = svc.Name
		}
	}
	if len(ips) != 41 {
		t.Errorf("%d services; want 40 and kubernetes", len(ips))
	}

	// Every pod is seen from the beginning, at the kernel that survives.
	seen := &pods{bound: map[string]string{}}
	watch, err := second.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: services.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	go func() {
		for e := range watch.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok {
				seen.see(pod)
			}
		}
	}()
	running := func(want int) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			list, err := second.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			n := 0
			for i := range list.Items {
				if list.Items[i].Status.Phase == corev1.PodRunning {
					n++
				}
			}
			if n != want || len(list.Items) != want {
				return fmt.Errorf("%d of %d pods run; want %d", n, len(list.Items), want)
			}
			return nil
		})
	}
	labels := map[string]string{"app": "web"}
	replicas := int32(10)
	if _, err := second.client.AppsV1().Deployments("default").Create(bound(t), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	running(10)

	// The leader is killed while there is work.
	scale := func(n int) {
		t.Helper()
		patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)
		if _, err := second.client.AppsV1().Deployments("default").Patch(bound(t), "web", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	scale(40)
	eventually(t, func(context.Context) error {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.bound) < 15 {
			return errors.New("no new pod yet")
		}
		return nil
	})
	first.Kill()
	killed := time.Now()
	scale(60)
	running(60)
	t.Logf("60 of 60 pods run %.1f s after the leader was killed", time.Since(killed).Seconds())
	scheduler, controllers, err := holders(bound(t), second.client)
	if err != nil || scheduler == leader || controllers == leader || scheduler != controllers {
		t.Errorf("the leaders are %q and %q, after %q: %v", scheduler, controllers, leader, err)
	}
	// The watch has told of all that the list has.
	eventually(t, func(context.Context) error {
		seen.mu.Lock()
		defer seen.mu.Unlock()
		n := 0
		for _, node := range seen.bound {
			if node != "" {
				n++
			}
		}
		if n < 60 {
			return fmt.Errorf("%d pods were seen bound", n)
		}
		return nil
	})
	seen.mu.Lock()
	if len(seen.bound) != 60 {
		t.Errorf("%d pods were made; want 60, each once", len(seen.bound))
	}
	for _, fault := range seen.faults {
		t.Error(fault)
	}
	seen.mu.Unlock()
	serve(secondIP)

	// The first comes back, and takes over again when the second ends in order.
	again := s.launch(t, "ha1", filepath.Join(data, "1"), cluster.NodeIP, 0)
	serve(cluster.NodeIP, secondIP)
	defer end(t, again)
	stopped = true
	end(t, second)
	ended := time.Now()
	eventually(t, func(ctx context.Context) error {
		now, controllers, err := holders(ctx, again.client)
		if err != nil || now == scheduler || now == "" || controllers != now {
			return fmt.Errorf("the leaders are %q and %q: %w", now, controllers, err)
		}
		return nil
	})
	t.Logf("the other kernel leads %.1f s after an orderly end", time.Since(ended).Seconds())
}

// TestHollowNodesOfTwoKernels: simulated nodes of kernels that start at the
// same time on one etcd have ranges of pod IPs and addresses apart, and so
// have their pods.
func TestHollowNodesOfTwoKernels(t *testing.T) {
	t.Parallel()
	s := newSeveral(t)
	data := t.TempDir()
	both := make([]*env, 2)
	var wg sync.WaitGroup
	for i, address := range []string{cluster.NodeIP, secondIP} {
		wg.Go(func() {
			both[i] = s.launch(t, fmt.Sprintf("hollow%d", i), filepath.Join(data, fmt.Sprint(i)), address, 4)
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, e := range both {
		defer end(t, e)
	}
	client := both[0].client
	// Pods go to all of the nodes only if all are ready by then.
	eventually(t, func(ctx context.Context) error {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 8 {
			return fmt.Errorf("%d nodes, want 8: %w", len(list.Items), err)
		}
		for _, n := range list.Items {
			if len(n.Spec.Taints) > 0 {
				return fmt.Errorf("node %s has taints %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
	labels, replicas := map[string]string{"app": "web"}, int32(60)
	if _, err := client.AppsV1().Deployments("default").Create(bound(t), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	own := func(what, address, owner string) {
		if other := owners[address]; other != "" || address == "" {
			t.Errorf("%s %s has %q, which is %s's", what, owner, address, other)
		}
		owners[address] = owner
	}
	eventually(t, func(ctx context.Context) error {
		list, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running"})
		if err != nil || len(list.Items) != int(replicas) {
			return fmt.Errorf("%d pods run: %w", len(list.Items), err)
		}
		used := map[string]bool{}
		for _, pod := range list.Items {
			own("pod", pod.Status.PodIP, pod.Name)
			used[pod.Spec.NodeName] = true
		}
		if len(used) != 8 {
			t.Errorf("the pods are on %d nodes", len(used))
		}
		return nil
	})
	nodes, err := client.CoreV1().Nodes().List(bound(t), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 8 {
		t.Fatalf("%d nodes, %v", len(nodes.Items), err)
	}
	for _, node := range nodes.Items {
		own("node", node.Spec.PodCIDR, node.Name)
		own("node", node.Status.Addresses[0].Address, node.Name)
	}
}
