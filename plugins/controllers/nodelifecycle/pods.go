package nodelifecycle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// byNode is the index of pods by the node that they are bound to.
const byNode = "spec.nodeName"

// indexPods adds the index to the shared informer, once.
func indexPods(informer cache.SharedIndexInformer) error {
	err := informer.AddIndexers(cache.Indexers{byNode: func(obj any) ([]string, error) {
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			return []string{pod.Spec.NodeName}, nil
		}
		return nil, nil
	}})
	if _, there := informer.GetIndexer().GetIndexers()[byNode]; there {
		return nil
	}
	return err
}

func (l *lifecycle) podsOn(node string) []*corev1.Pod {
	found, err := l.informers.pods.GetIndexer().ByIndex(byNode, node)
	if err != nil {
		return nil // the index is there since New
	}
	pods := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}
