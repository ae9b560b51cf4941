package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// accountName is the account that pods without one run under.
const accountName = "default"

// accounts is the controller.
type accounts struct {
	client     kubernetes.Interface
	accounts   corelisters.ServiceAccountLister
	namespaces corelisters.NamespaceLister
	informers  [2]cache.SharedIndexInformer // accounts, namespaces
	loop       *queue.Loop[string]          // of namespace names
}

// New builds the controller.
func New(c *controller.Context) (controller.Runner, error) {
	sa, ns := c.Informers.Core().V1().ServiceAccounts(), c.Informers.Core().V1().Namespaces()
	a := &accounts{
		client: c.Client, accounts: sa.Lister(), namespaces: ns.Lister(),
		informers: [2]cache.SharedIndexInformer{sa.Informer(), ns.Informer()},
	}
	a.loop = queue.New(c.Logger, a.sync, queue.Options[string]{Name: "serviceaccount"})
	return a, nil
}

// Run works until ctx ends.
func (a *accounts) Run(ctx context.Context) error {
	return a.loop.Follow(ctx,
		queue.Watch{Informer: a.informers[0], Handler: queue.On(func(old, current *corev1.ServiceAccount) {
			if current == nil && old.Name == accountName {
				a.loop.Add(old.Namespace)
			}
		})},
		queue.Watch{Informer: a.informers[1], Handler: queue.On(func(_, current *corev1.Namespace) {
			if current != nil {
				a.loop.Add(current.Name)
			}
		})})
}

func (a *accounts) sync(ctx context.Context, name string) error {
	ns, err := a.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.Status.Phase != corev1.NamespaceActive || ns.DeletionTimestamp != nil {
		return nil
	}
	if _, err := a.accounts.ServiceAccounts(name).Get(accountName); !apierrors.IsNotFound(err) {
		return err
	}
	_, err = a.client.CoreV1().ServiceAccounts(name).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: accountName, Namespace: name},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("serviceaccount %s/%s: create: %w", name, accountName, err)
}
