package node

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/kernel/node/cri/critest"
)

// TestGivenRangeLost: an agent ends with an error that says so when its Node gets another range of pod IPs.
func TestGivenRangeLost(t *testing.T) {
	client := fake.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.2.0/24"}}})
	agent, err := New(Config{
		NodeName: nodeName, CRIEndpoint: critest.New(t).Endpoint, RootDir: t.TempDir(), Port: -1, NodeIPs: []string{"127.0.0.1"}, PodCIDR: "10.244.2.0/24", PodCIDRGiven: true,
	}, Deps{Client: client, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(t.Context()) }()
	limit := time.After(2 * time.Minute)
	select {
	case <-agent.Ready():
	case err := <-ended:
		t.Fatalf("ended with its own range: %v", err)
	case <-limit:
		t.Fatal("the agent did not become ready")
	}
	nodes := client.CoreV1().Nodes()
	node, err := nodes.Get(t.Context(), nodeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Spec.PodCIDRs = []string{"10.244.3.0/24"}
	if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "its range of pod IPs was 10.244.2.0/24, and is [10.244.3.0/24]") {
			t.Error(err)
		}
	case <-limit:
		t.Fatal("the agent goes on with a range that is not its own")
	}
}
