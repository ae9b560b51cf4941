package storageprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// volumes is the controller pv-protection.
type volumes struct {
	client  typedcorev1.PersistentVolumesGetter
	volumes corelisters.PersistentVolumeLister
	watch   queue.Watch
	loop    *queue.Loop[string] // of names
}

// NewVolumes builds pv-protection. It has no configuration.
func NewVolumes(c *controller.Context) (controller.Runner, error) {
	informer := c.Informers.Core().V1().PersistentVolumes()
	k := &volumes{client: c.Client.CoreV1(), volumes: informer.Lister()}
	k.loop = queue.New(c.Logger, k.sync, queue.Options[string]{Name: "pvprotection"})
	k.watch = queue.Watch{Informer: informer.Informer(), Handler: queue.On(func(_, current *corev1.PersistentVolume) {
		if current != nil && ofVolumes.concerns(current) {
			k.loop.Add(current.Name)
		}
	})}
	return k, nil
}

// Run works until ctx ends.
func (k *volumes) Run(ctx context.Context) error { return k.loop.Follow(ctx, k.watch) }

func (k *volumes) sync(ctx context.Context, name string) error {
	volume, err := k.volumes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return ofVolumes.keep(volume, func() (bool, error) { return volume.Status.Phase == corev1.VolumeBound, nil }, func(patch []byte) error {
		_, err := k.client.PersistentVolumes().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}
