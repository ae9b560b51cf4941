package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

var plainCreate = metav1.CreateOptions{}

// load is pods that are to be created, encoded before the clock starts.
type load struct {
	namespace string
	names     []string
	bodies    [][]byte
	// sent is when each create was sent.
	sent []time.Time
}

func newLoad(namespace string, n int, of shape) (*load, error) {
	l := &load{namespace: namespace, names: make([]string, n), bodies: make([][]byte, n), sent: make([]time.Time, n)}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		return nil, errors.New("client-go has no protobuf")
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	for i := range n {
		pod := of(i)
		var err error
		if l.bodies[i], err = runtime.Encode(encoder, pod); err != nil {
			return nil, err
		}
		l.names[i] = pod.Name
	}
	return l, nil
}

// create sends the creates. What the server answers is read, but nobody needs it
// decoded.
func (l *load) create(ctx context.Context, client kubernetes.Interface, workers int) error {
	return parallel(ctx, len(l.bodies), workers, func(ctx context.Context, i int) error {
		l.sent[i] = time.Now()
		if err := client.CoreV1().RESTClient().Post().Namespace(l.namespace).Resource("pods").
			SetHeader("Content-Type", runtime.ContentTypeProtobuf).Body(l.bodies[i]).Do(ctx).Error(); err != nil {
			return fmt.Errorf("create pod %s/%s: %w", l.namespace, l.names[i], err)
		}
		return nil
	})
}

func createAll(ctx context.Context, client kubernetes.Interface, namespace string, n, workers int, of shape) error {
	l, err := newLoad(namespace, n, of)
	if err != nil {
		return err
	}
	return l.create(ctx, client, workers)
}

// createNodes makes the nodes from first on, which nobody agents. What admission
// taints as not ready is freed by hand, as the node life cycle controller would.
func createNodes(ctx context.Context, client kubernetes.Interface, first, n int, zones ...string) error {
	return parallel(ctx, n, 32, func(ctx context.Context, i int) error {
		node, err := client.CoreV1().Nodes().Create(ctx, plainNode(first+i, zones...), plainCreate)
		if err == nil && len(node.Spec.Taints) > 0 {
			node.Spec.Taints = nil
			_, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("create node %d: %w", first+i, err)
		}
		return nil
	})
}

// awaitPods returns when n pods of a namespace are as wanted.
func awaitPods(ctx context.Context, client kubernetes.Interface, namespace string, n int, wanted func(*corev1.Pod) bool) error {
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	seen := map[types.UID]bool{}
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			seen[list.Items[i].UID] = true
		}
	}
	w, err := watchPodsFrom(ctx, client, namespace, "", list.ResourceVersion)
	if err != nil {
		return err
	}
	defer w.Stop()
	for len(seen) < n {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return errors.New("the watch ended")
			}
			if pod, ok := e.Object.(*corev1.Pod); ok && wanted(pod) {
				seen[pod.UID] = true
			}
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of %d pods of %s are as wanted", ctx.Err(), len(seen), n, namespace)
		}
	}
	return nil
}

// watchPodsFrom goes on where a server ends a watch, as kube-apiserver does in its
// first seconds.
func watchPodsFrom(ctx context.Context, client kubernetes.Interface, namespace, selector, version string) (watch.Interface, error) {
	return watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return client.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	})
}

// checkPlaced asserts the end of a row: every pod is there, bound to a node that
// exists, and no node holds more than it has.
func checkPlaced(ctx context.Context, client kubernetes.Interface, count int, legal func(map[string]*corev1.Node, []corev1.Pod) error) error {
	nodeList, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	nodes := map[string]*corev1.Node{}
	for i := range nodeList.Items {
		nodes[nodeList.Items[i].Name] = &nodeList.Items[i]
	}
	list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	type load struct{ cpu, memory, pods int64 }
	loads := map[string]load{}
	var ours []corev1.Pod
	for i := range list.Items {
		p := &list.Items[i]
		if p.Namespace == measured {
			ours = append(ours, *p)
		}
		if p.Spec.NodeName == "" {
			if p.Namespace == measured {
				return fmt.Errorf("pod %s is not bound", p.Name)
			}
			continue
		}
		if nodes[p.Spec.NodeName] == nil {
			return fmt.Errorf("pod %s is bound to %q, which is no node", p.Name, p.Spec.NodeName)
		}
		l := loads[p.Spec.NodeName]
		for c := range p.Spec.Containers {
			l.cpu += p.Spec.Containers[c].Resources.Requests.Cpu().MilliValue()
			l.memory += p.Spec.Containers[c].Resources.Requests.Memory().Value()
		}
		l.pods++
		loads[p.Spec.NodeName] = l
	}
	if len(ours) != count {
		return fmt.Errorf("%d pods were acknowledged, %d are there", count, len(ours))
	}
	for name, l := range loads {
		a := nodes[name].Status.Allocatable
		if l.cpu > a.Cpu().MilliValue() || l.memory > a.Memory().Value() || l.pods > a.Pods().Value() {
			return fmt.Errorf("node %s holds %d pods with %dm and %d bytes", name, l.pods, l.cpu, l.memory)
		}
	}
	if legal == nil {
		return nil
	}
	slices.SortFunc(ours, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return legal(nodes, ours)
}
