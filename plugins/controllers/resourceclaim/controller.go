package resourceclaim

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/plugins/controllers/settings"
	"pintle.dev/pintle/sdk/controller"
	"pintle.dev/pintle/sdk/metrics"
)

const (
	standardWorkers = 50
	source          = "resource_claim"
	failedCreation  = "FailedResourceClaimCreation"
	fieldManager    = "ResourceClaimController"
)

// Indexes of the shared informers, each by namespace/name or by UID.
const (
	byClaim    = "pintle.dev/resourceclaims-of-pods"
	byTemplate = "pintle.dev/resourceclaimtemplates-of-pods"
	byOwner    = "pintle.dev/owners-of-resourceclaims"
)

// What the controller remembers.
const (
	rememberedPods   = 500 // UIDs of pods that were deleted
	rememberedClaims = 1000
	rememberedFor    = time.Hour
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// key is what is worked on: a pod, or a claim.
type key struct {
	claim bool
	cache.ObjectName
}

// String is for the log.
func (k key) String() string {
	if k.claim {
		return "claim " + k.ObjectName.String()
	}
	return "pod " + k.ObjectName.String()
}

func podKey(o metav1.Object) key { return key{ObjectName: cache.MetaObjectToName(o)} }

func claimKey(namespace, name string) key {
	return key{claim: true, ObjectName: cache.NewObjectName(namespace, name)}
}

// New builds the controller. Its one key is concurrentSyncs.
func New(c *controller.Context) (controller.Runner, error) {
	workers, err := settings.Workers(c.Config, "concurrentSyncs", standardWorkers)
	if err != nil {
		return nil, err
	}
	registerMetrics.Do(func() { metrics.Register(creations, &counted) })
	return build(c.Client, c.Informers, workers, c.Logger)
}

var registerMetrics sync.Once

type keeper struct {
	*queue.Frame[key]
	client    kubernetes.Interface
	log       *slog.Logger
	pods      corelisters.PodLister
	podIndex  cache.Indexer
	claims    resourcelisters.ResourceClaimLister
	templates resourcelisters.ResourceClaimTemplateLister
	made      cache.MutationCache // claims, with those that were made and have not come by the informer
	gone      *lru.Cache          // of UIDs
}

func build(client kubernetes.Interface, shared informers.SharedInformerFactory, workers int, log *slog.Logger) (*keeper, error) {
	pods, claims, templates := shared.Core().V1().Pods(), shared.Resource().V1().ResourceClaims(), shared.Resource().V1().ResourceClaimTemplates()
	for _, i := range []struct {
		on   cache.SharedIndexInformer
		name string
		by   cache.IndexFunc
	}{
		{pods.Informer(), byClaim, claimsOfPod}, {pods.Informer(), byTemplate, templatesOfPod}, {claims.Informer(), byOwner, ownerOfClaim},
	} {
		if err := index(i.on, i.name, i.by); err != nil {
			return nil, fmt.Errorf("resourceclaim: index %s: %w", i.name, err)
		}
	}
	known := claims.Informer().GetIndexer()
	k := &keeper{
		client: client, log: log, pods: pods.Lister(), podIndex: pods.Informer().GetIndexer(),
		claims: claims.Lister(), templates: templates.Lister(), gone: lru.New(rememberedPods),
		made: cache.NewIntegerResourceVersionMutationCacheWithOptions(klog.Background(), known,
			cache.MutationCacheOptions{Indexer: known, TTL: rememberedFor, IncludeAdds: true, MaxCacheSize: rememberedClaims}),
	}
	k.Frame = queue.NewFrame(client, log, source, k.sync, queue.Options[key]{Name: source, Workers: workers})
	k.Watch(pods.Informer(), queue.On(k.podChanged))
	k.Watch(claims.Informer(), queue.On(k.claimChanged))
	k.Watch(templates.Informer(), queue.On(func(_, template *resourcev1.ResourceClaimTemplate) {
		if template != nil {
			k.lookAtAll(byTemplate, queue.Key(template))
		}
	}))
	return k, nil
}

// Run works until ctx ends. While it does, the claims that it knows are counted.
func (k *keeper) Run(ctx context.Context) error {
	defer counted.of(k.claims)()
	return k.Frame.Run(ctx)
}

// index adds an index to a shared informer, once.
func index(informer cache.SharedIndexInformer, name string, by cache.IndexFunc) error {
	err := informer.AddIndexers(cache.Indexers{name: by})
	if _, there := informer.GetIndexer().GetIndexers()[name]; there {
		return nil
	}
	return err
}

func claimsOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys = append(keys, pod.Namespace+"/"+*name)
		}
	}
	return keys, nil
}

func templatesOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; name != nil {
			keys = append(keys, pod.Namespace+"/"+*name)
		}
	}
	return keys, nil
}

func ownerOfClaim(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, nil
	}
	if _, uid := owningPod(claim); uid != "" {
		return []string{string(uid)}, nil
	}
	return nil, nil
}

// owningPod is the pod that a claim was made for; an empty UID: for none.
func owningPod(claim *resourcev1.ResourceClaim) (name string, uid types.UID) {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.APIVersion != podKind.GroupVersion().String() || owner.Kind != podKind.Kind {
		return "", ""
	}
	return owner.Name, owner.UID
}

func (k *keeper) sync(ctx context.Context, key key) error {
	if key.claim {
		return k.syncClaim(ctx, key.ObjectName)
	}
	return k.syncPod(ctx, key.ObjectName)
}

// podChanged looks at a pod that has claims, or had some.
func (k *keeper) podChanged(old, pod *corev1.Pod) {
	if old != nil && (pod == nil || pod.UID != old.UID) && hasClaims(old) {
		k.gone.Add(old.UID, nil)
		k.release(old)
	}
	if pod != nil && hasClaims(pod) {
		k.lookAt(pod)
	}
}

func hasClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// lookAt enqueues what a pod gives work for.
func (k *keeper) lookAt(pod *corev1.Pod) {
	if done(pod) {
		k.release(pod)
	}
	if k.needsWork(pod) {
		k.Add(podKey(pod))
	}
}

func (k *keeper) lookAtAll(indexName, value string) {
	pods, err := k.podIndex.ByIndex(indexName, value)
	if err != nil {
		k.log.Error("pods are not found", "index", indexName, "value", value, "error", err)
	}
	for _, obj := range pods {
		if pod, ok := obj.(*corev1.Pod); ok {
			k.lookAt(pod)
		}
	}
}

// release enqueues the claims of a pod that needs them no more.
func (k *keeper) release(pod *corev1.Pod) {
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			k.Add(claimKey(pod.Namespace, *name))
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		k.Add(claimKey(pod.Namespace, s.ResourceClaimName))
	}
}

// claimChanged looks at a claim, and at the pods that use it.
func (k *keeper) claimChanged(old, claim *resourcev1.ResourceClaim) {
	if claim == nil {
		k.made.OnDelete(old)
		claim = old
	} else {
		k.made.OnAddOrUpdate(claim)
		k.Add(claimKey(claim.Namespace, claim.Name))
	}
	k.lookAtAll(byClaim, queue.Key(claim))
}
