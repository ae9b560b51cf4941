package persistentvolumebinder

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	csitranslation "k8s.io/csi-translation-lib"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

// New builds the controller. Its configuration is Config as JSON.
func New(c *controller.Context) (controller.Runner, error) {
	cfg, err := readConfig(c.Config)
	if err != nil {
		return nil, err
	}
	register()
	return build(c.Client, c.Informers, cfg, c.Logger)
}

type keeper struct {
	client     kubernetes.Interface
	cfg        Config
	claimLoop  *queue.Loop[string]
	volumeLoop *queue.Loop[string]
	watches    []queue.Watch
	// What the informers have.
	claimLister  corelisters.PersistentVolumeClaimLister
	volumeLister corelisters.PersistentVolumeLister
	classes      storagelisters.StorageClassLister
	pods         cache.Indexer
	// What is newest of theirs and of what was written.
	claims     newest[*corev1.PersistentVolumeClaim]
	volumes    newest[*corev1.PersistentVolume]
	translator csitranslation.CSITranslator
	recorder   record.EventRecorder
	log        *slog.Logger
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, cfg Config, log *slog.Logger) (*keeper, error) {
	claims, volumes := shared.Core().V1().PersistentVolumeClaims(), shared.Core().V1().PersistentVolumes()
	classes, pods := shared.Storage().V1().StorageClasses(), shared.Core().V1().Pods().Informer()
	if err := indexPods(pods); err != nil {
		return nil, err
	}
	k := &keeper{
		client: client, cfg: cfg, log: log, translator: csitranslation.New(),
		claimLister: claims.Lister(), volumeLister: volumes.Lister(), classes: classes.Lister(), pods: pods.GetIndexer(),
		claims:  newNewest[*corev1.PersistentVolumeClaim](nil),
		volumes: newNewest[*corev1.PersistentVolume](cache.Indexers{byModes: indexByModes}),
	}
	k.claimLoop = queue.New(log, k.syncClaimKey, queue.Options[string]{Name: "claims"})
	k.volumeLoop = queue.New(log, k.syncVolumeKey, queue.Options[string]{Name: "volumes"})
	k.watches = []queue.Watch{
		{Informer: claims.Informer(), Handler: queue.Every(func(c *corev1.PersistentVolumeClaim) { k.claimLoop.Add(queue.Key(c)) })},
		{Informer: volumes.Informer(), Handler: queue.Every(func(v *corev1.PersistentVolume) { k.volumeLoop.Add(v.Name) })},
		{Informer: classes.Informer()},
		{Informer: pods},
	}
	return k, nil
}

// Run works until ctx ends.
func (k *keeper) Run(ctx context.Context) error {
	recorder, stop := controller.Recorder(ctx, k.client, "persistentvolume-controller")
	defer stop()
	k.recorder = recorder
	defer counted.of(k)()
	return queue.Follow(ctx, k.watches, workers{k})
}

// workers are the two loops, which begin when all volumes and claims are known: a claim whose
// volume is not known yet would be written down as lost.
type workers struct{ *keeper }

// Run implements queue.Worker.
func (w workers) Run(ctx context.Context) {
	w.fill(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { w.volumeLoop.Run(ctx) })
	wg.Go(func() { w.claimLoop.Run(ctx) })
	wg.Go(func() { w.resync(ctx) })
	wg.Wait()
}

// Close implements queue.Worker.
func (w workers) Close() {
	w.claimLoop.Close()
	w.volumeLoop.Close()
}

func (k *keeper) known() ([]*corev1.PersistentVolumeClaim, []*corev1.PersistentVolume, error) {
	claims, err := k.claimLister.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("list persistent volume claims: %w", err)
	}
	volumes, err := k.volumeLister.List(labels.Everything())
	if err != nil {
		return nil, nil, fmt.Errorf("list persistent volumes: %w", err)
	}
	return claims, volumes, nil
}

func (k *keeper) fill(ctx context.Context) {
	claims, volumes, err := k.known()
	if err != nil {
		k.log.ErrorContext(ctx, "caches are not read", "error", err)
	}
	for _, c := range claims {
		k.claims.put(c)
	}
	for _, v := range volumes {
		k.volumes.put(v)
	}
}

// resync looks at everything from time to time: no event of a new volume enqueues a claim that waits.
func (k *keeper) resync(ctx context.Context) {
	tick := time.NewTicker(k.cfg.PVClaimBinderSyncPeriod.Duration)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		claims, volumes, err := k.known()
		if err != nil {
			k.log.WarnContext(ctx, "claims and volumes are not looked at", "error", err)
		}
		for _, c := range claims {
			k.claimLoop.Add(queue.Key(c))
		}
		for _, v := range volumes {
			k.volumeLoop.Add(v.Name)
		}
	}
}

func (k *keeper) syncClaimKey(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := k.claimLister.PersistentVolumeClaims(namespace).Get(name)
	switch {
	case err == nil:
		if !k.claims.put(claim) {
			return nil // an event of what was written is on its way
		}
		return k.syncClaim(ctx, claim)
	case !apierrors.IsNotFound(err):
		return err
	}
	if claim, there := k.claims.get(key); there {
		k.claims.drop(claim)
		if claim.Spec.VolumeName != "" {
			k.volumeLoop.Add(claim.Spec.VolumeName)
		}
	}
	return nil
}

func (k *keeper) syncVolumeKey(ctx context.Context, name string) error {
	pv, err := k.volumeLister.Get(name)
	switch {
	case err == nil:
		if !k.volumes.put(pv) {
			return nil
		}
		return k.syncVolume(ctx, pv)
	case !apierrors.IsNotFound(err):
		return err
	}
	if pv, there := k.volumes.get(name); there {
		k.volumes.drop(pv)
		if pv.Spec.ClaimRef != nil {
			k.claimLoop.Add(claimKey(pv.Spec.ClaimRef))
		}
	}
	return nil
}

// users are the pods that name a claim and have not ended.
func (k *keeper) users(key string) ([]*corev1.Pod, error) {
	objs, err := k.pods.ByIndex(byClaim, key)
	if err != nil {
		return nil, fmt.Errorf("find the pods of claim %s: %w", key, err)
	}
	var pods []*corev1.Pod
	for _, obj := range objs {
		if pod, ok := obj.(*corev1.Pod); ok && !ended(pod) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}
