package nodettl

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const workers = 5

// steps are the counts of nodes for which a time holds. A count leaves its step
// only beyond the step's ends.
var steps = []struct{ least, most, seconds int }{
	{0, 100, 0}, {90, 500, 15}, {450, 1000, 30}, {900, 2000, 60}, {1800, math.MaxInt, 300},
}

// New builds the controller of the annotation.
func New(c *controller.Context) (controller.Runner, error) {
	return build(c.Client, c.Informers, c.Logger), nil
}

type annotator struct {
	client  kubernetes.Interface
	loop    *queue.Loop[string]
	watches []queue.Watch
	nodes   cache.Indexer

	mu    sync.Mutex
	count int
	step  int
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, log *slog.Logger) *annotator {
	nodes := shared.Core().V1().Nodes().Informer()
	a := &annotator{client: client, nodes: nodes.GetIndexer()}
	a.loop = queue.New(log, a.sync, queue.Options[string]{Name: "ttlcontroller", Workers: workers})
	a.watches = []queue.Watch{{Informer: nodes, Handler: queue.On(a.changed)}}
	return a
}

// Run works until ctx ends.
func (a *annotator) Run(ctx context.Context) error { return a.loop.Follow(ctx, a.watches...) }

func (a *annotator) changed(old, node *corev1.Node) {
	moved := false
	switch {
	case old == nil:
		moved = a.counted(1)
	case node == nil:
		moved = a.counted(-1)
	}
	if moved {
		for _, name := range a.nodes.ListKeys() {
			a.loop.Add(name)
		}
	}
	if node != nil {
		a.loop.Add(node.Name)
	}
}

// counted says whether another step holds for the count of nodes then.
func (a *annotator) counted(by int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count += by
	before := a.step
	for a.count > steps[a.step].most {
		a.step++
	}
	for a.count < steps[a.step].least {
		a.step--
	}
	return a.step != before
}

func (a *annotator) seconds() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strconv.Itoa(steps[a.step].seconds)
}

// sync works on one node.
func (a *annotator) sync(ctx context.Context, name string) error {
	obj, there, err := a.nodes.GetByKey(name)
	if err != nil || !there {
		return err
	}
	node, ok := obj.(*corev1.Node)
	want := a.seconds()
	if !ok || node.Annotations[corev1.ObjectTTLAnnotationKey] == want {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{corev1.ObjectTTLAnnotationKey: want}}})
	if err != nil {
		return err
	}
	_, err = a.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}
