package nodepods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const byNode = "spec.nodeName"

// Index adds the index to the shared informer of pods, once, however many
// controllers ask.
func Index(informer cache.SharedIndexInformer) error {
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

// On returns the pods that are bound to the node, in no order; none if the cache has
// no index.
func On(pods cache.Indexer, node string) []*corev1.Pod {
	found, err := pods.ByIndex(byNode, node)
	if err != nil {
		return nil
	}
	list := make([]*corev1.Pod, 0, len(found))
	for _, obj := range found {
		if pod, ok := obj.(*corev1.Pod); ok {
			list = append(list, pod)
		}
	}
	return list
}
