package storageprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	typedstoragev1 "k8s.io/client-go/kubernetes/typed/storage/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// classes is the controller volumeattributesclass-protection.
type classes struct {
	client  typedstoragev1.VolumeAttributesClassesGetter
	classes storagelisters.VolumeAttributesClassLister
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	watches []queue.Watch
	loop    *queue.Loop[string] // of names
}

// NewClasses builds volumeattributesclass-protection. It has no configuration.
func NewClasses(c *controller.Context) (controller.Runner, error) {
	informer := c.Informers.Storage().V1().VolumeAttributesClasses()
	persistent, volumes := c.Informers.Core().V1().PersistentVolumeClaims(), c.Informers.Core().V1().PersistentVolumes()
	k := &classes{client: c.Client.StorageV1(), classes: informer.Lister(), claims: persistent.Lister(), volumes: volumes.Lister()}
	k.loop = queue.New(c.Logger, k.sync, queue.Options[string]{Name: "vacprotection"})
	k.watches = []queue.Watch{
		{Informer: informer.Informer(), Handler: queue.On(func(_, current *storagev1.VolumeAttributesClass) {
			if current != nil && ofClasses.concerns(current) {
				k.loop.Add(current.Name)
			}
		})},
		{Informer: persistent.Informer(), Handler: queue.On(func(old, current *corev1.PersistentVolumeClaim) { k.left(ofClaim(old), ofClaim(current)) })},
		{Informer: volumes.Informer(), Handler: queue.On(func(old, current *corev1.PersistentVolume) { k.left(ofVolume(old), ofVolume(current)) })},
	}
	return k, nil
}

// Run works until ctx ends.
func (k *classes) Run(ctx context.Context) error { return k.loop.Follow(ctx, k.watches...) }

// left looks at the classes that an object named before and does not any more.
func (k *classes) left(before, now []string) {
	for _, name := range before {
		if !slices.Contains(now, name) {
			k.loop.Add(name)
		}
	}
}

func (k *classes) sync(ctx context.Context, name string) error {
	class, err := k.classes.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return ofClasses.keep(class, func() (bool, error) { return k.inUse(name) }, func(patch []byte) error {
		_, err := k.client.VolumeAttributesClasses().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

func (k *classes) inUse(name string) (bool, error) {
	volumes, err := k.volumes.List(labels.Everything())
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(volumes, func(v *corev1.PersistentVolume) bool { return slices.Contains(ofVolume(v), name) }) {
		return true, nil
	}
	claims, err := k.claims.List(labels.Everything())
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return slices.Contains(ofClaim(c), name) }), nil
}

// ofClaim are the classes that a claim names: wanted, in force, and on the way.
func ofClaim(claim *corev1.PersistentVolumeClaim) []string {
	if claim == nil {
		return nil
	}
	names := named(claim.Spec.VolumeAttributesClassName, claim.Status.CurrentVolumeAttributesClassName)
	if modify := claim.Status.ModifyVolumeStatus; modify != nil {
		names = append(names, named(&modify.TargetVolumeAttributesClassName)...)
	}
	return names
}

// ofVolume are the classes that a volume names.
func ofVolume(volume *corev1.PersistentVolume) []string {
	if volume == nil {
		return nil
	}
	return named(volume.Spec.VolumeAttributesClassName)
}

func named(names ...*string) (out []string) {
	for _, name := range names {
		if name != nil && *name != "" {
			out = append(out, *name)
		}
	}
	return out
}
