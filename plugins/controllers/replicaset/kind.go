package replicaset

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// kind is how the controller reaches the objects it replicates, whichever
// kind they are of. Objects it gives out share memory with the cache.
type kind struct {
	gvk       schema.GroupVersionKind
	component string // as it signs events
	queue     string // its name in the metrics
	informer  cache.SharedIndexInformer
	// terminating says that the status counts terminating pods.
	terminating bool

	from   func(obj any) *appsv1.ReplicaSet // nil for what is none
	get    func(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error)
	status func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error)
}

func replicaSets(client kubernetes.Interface, shared informers.SharedInformerFactory) kind {
	return kind{
		gvk:         appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		component:   "replicaset-controller",
		queue:       "replicaset",
		informer:    shared.Apps().V1().ReplicaSets().Informer(),
		terminating: true,
		from: func(obj any) *appsv1.ReplicaSet {
			rs, _ := obj.(*appsv1.ReplicaSet)
			return rs
		},
		get: func(ctx context.Context, namespace, name string) (*appsv1.ReplicaSet, error) {
			return client.AppsV1().ReplicaSets(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		status: func(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
			return client.AppsV1().ReplicaSets(rs.Namespace).UpdateStatus(ctx, rs, metav1.UpdateOptions{})
		},
	}
}

// lookup returns the cached object of the key, nil if there is none.
func (k *kind) lookup(key string) (*appsv1.ReplicaSet, error) {
	obj, there, err := k.informer.GetIndexer().GetByKey(key)
	if err != nil || !there {
		return nil, err
	}
	return k.from(obj), nil
}

// inNamespace returns the cached objects of a namespace.
func (k *kind) inNamespace(namespace string) []*appsv1.ReplicaSet {
	objs, err := k.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil
	}
	list := make([]*appsv1.ReplicaSet, 0, len(objs))
	for _, obj := range objs {
		if rs := k.from(obj); rs != nil {
			list = append(list, rs)
		}
	}
	return list
}
