package api

import (
	"fmt"
	"slices"
	"sort"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	discoveryendpoint "k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/util"

	"pintle.dev/pintle/kernel/api/aggregation"
	"pintle.dev/pintle/kernel/api/auth/node"
	"pintle.dev/pintle/kernel/api/patterns"
	"pintle.dev/pintle/kernel/api/poddelete"
	"pintle.dev/pintle/kernel/api/resources"
	"pintle.dev/pintle/kernel/api/statuspatch"
)

// installer puts resources under /api and /apis. It does what the generic
// server's own InstallAPIGroup does, except that the models for managed fields
// are made when they are needed and not at start.
type installer struct {
	server     *genericapiserver.GenericAPIServer
	scheme     *runtime.Scheme
	kinds      map[schema.GroupResource]resources.Kind
	serializer runtime.NegotiatedSerializer
	docs       *documents
	admit      admission.Interface
	minTimeout time.Duration
	maxBody    int64
	// creates takes ordinary creates of pods, of this store; nil: the machinery does.
	creates   *later
	pods      *genericregistry.Store
	podsAsked func() bool
	// statuses takes ordinary patches of pods' statuses, where creates is not nil.
	statuses         *later
	statusesReviewed func() bool
	// deletes takes ordinary deletes of pods, where creates is not nil.
	deletes         *later
	deletesReviewed func() bool
}

// install adds all resources of all group versions.
func (i installer) install(storage map[schema.GroupVersion]map[string]rest.Storage) error {
	gvs := make([]schema.GroupVersion, 0, len(storage))
	for gv := range storage {
		gvs = append(gvs, gv)
	}
	sort.Slice(gvs, func(a, b int) bool {
		if pa, pb := aggregation.BuiltinPriority(gvs[a]).Group, aggregation.BuiltinPriority(gvs[b]).Group; pa != pb {
			return pa > pb
		}
		return gvs[a].String() < gvs[b].String()
	})
	versions := map[string][]string{}
	for _, gv := range gvs {
		if err := i.groupVersion(gv, storage[gv]); err != nil {
			return err
		}
		versions[gv.Group] = append(versions[gv.Group], gv.Version)
	}
	done := map[string]bool{}
	for _, gv := range gvs {
		switch {
		case done[gv.Group]:
		case gv.Group == "":
			root := discovery.NewLegacyRootAPIHandler(i.addresses(), i.serializer, genericapiserver.DefaultLegacyAPIPrefix)
			wrapped := discoveryendpoint.WrapAggregatedDiscoveryToHandler(root,
				i.server.AggregatedLegacyDiscoveryGroupManager, i.server.AggregatedLegacyDiscoveryGroupManager)
			i.server.Handler.GoRestfulContainer.Add(wrapped.GenerateWebService(genericapiserver.DefaultLegacyAPIPrefix, metav1.APIVersions{}))
		default:
			g := apiGroup(gv.Group, versions[gv.Group])
			i.server.Handler.GoRestfulContainer.Add(discovery.NewAPIGroupHandler(i.serializer, g).WebService())
		}
		done[gv.Group] = true
	}
	patterns.LetGo(i.server.Handler.GoRestfulContainer)
	return nil
}

func (i installer) addresses() discovery.Addresses {
	return discovery.DefaultAddresses{DefaultAddress: i.server.ExternalAddress}
}

func (i installer) groupVersion(gv schema.GroupVersion, storage map[string]rest.Storage) error {
	prefix := genericapiserver.APIGroupPrefix
	if gv.Group == "" {
		prefix = genericapiserver.DefaultLegacyAPIPrefix
	}
	served := map[string][]string{}
	seen := map[string]bool{}
	var names []string
	model := func(gvk schema.GroupVersionKind) error {
		obj, err := i.scheme.New(gvk)
		if err != nil {
			return err
		}
		if name := util.GetCanonicalTypeName(obj); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
		return nil
	}
	for resource, s := range storage {
		served[resource] = []string{gv.String()}
		gvk, err := genericapi.GetResourceKind(gv, s, i.scheme)
		if err != nil {
			return fmt.Errorf("install %s %s: %w", gv, resource, err)
		}
		if err := model(gvk); err != nil {
			return fmt.Errorf("install %s %s: %w", gv, resource, err)
		}
		if r, ok := s.(rest.StorageWithReadiness); ok {
			i.server.StorageReadinessHook.RegisterStorage(metav1.GroupVersionResource{Group: gv.Group, Version: gv.Version, Resource: resource}, r)
		}
	}
	for _, k := range i.kinds {
		// Managed fields of an object may be of any of its versions.
		versions := append([]schema.GroupVersion{k.GVK.GroupVersion()}, k.Also...)
		if len(versions) == 1 || !slices.Contains(versions, gv) {
			continue
		}
		for _, version := range versions {
			if err := model(version.WithKind(k.GVK.Kind)); err != nil {
				return fmt.Errorf("install %s %s: %w", gv, k.Resource, err)
			}
		}
	}
	sort.Strings(names)
	v := &genericapi.APIGroupVersion{
		Root:                        prefix,
		Storage:                     storage,
		GroupVersion:                gv,
		AllServedVersionsByResource: served,
		OptionsExternalVersion:      &schema.GroupVersion{Version: "v1"},
		Serializer:                  i.serializer,
		ParameterCodec:              runtime.NewParameterCodec(i.scheme),
		Typer:                       i.scheme,
		Creater:                     i.scheme,
		Convertor:                   i.scheme,
		ConvertabilityChecker:       i.scheme,
		Defaulter:                   i.scheme,
		Namer:                       runtime.Namer(meta.NewAccessor()),
		UnsafeConvertor:             shallowConvertor{i.scheme},
		TypeConverter:               i.docs.typeConverter(names),
		EquivalentResourceRegistry:  i.server.EquivalentResourceRegistry,
		Authorizer:                  i.server.Authorizer,
		Admit:                       i.admit,
		MinRequestTimeout:           i.minTimeout,
		MaxRequestBodyBytes:         i.maxBody,
	}
	if gv == podKind.GroupVersion() && i.creates != nil {
		creates, err := newPodCreates(i.pods, i, v.TypeConverter)
		if err != nil {
			return fmt.Errorf("install %s: %w", gv, err)
		}
		i.creates.set(creates.before)
		statuses, err := statuspatch.New(statuspatch.Options{
			Store: with(i.pods, i.kinds[podResource.GroupResource()].Status), Scheme: i.scheme, Serializer: i.serializer,
			Types: v.TypeConverter, Convertor: shallowConvertor{i.scheme}, Admit: i.admit, Reviewed: i.statusesReviewed,
			Interfaces: objectInterfaces{i.scheme, i.server.EquivalentResourceRegistry}, Body: bodyOf, MaxBody: maxBody, Manager: managerOf,
		})
		if err != nil {
			return fmt.Errorf("install %s: %w", gv, err)
		}
		i.statuses.set(statuses.Before)
		deletes, err := poddelete.New(poddelete.Options{
			Store: i.pods, Serializer: i.serializer, Admit: i.admit, Reviewed: i.deletesReviewed, Node: node.Name,
			Interfaces: objectInterfaces{i.scheme, i.server.EquivalentResourceRegistry}, Body: bodyOf, MaxBody: maxBody,
		})
		if err != nil {
			return fmt.Errorf("install %s: %w", gv, err)
		}
		i.deletes.set(deletes.Before)
	}
	listed, _, err := v.InstallREST(i.server.Handler.GoRestfulContainer)
	if err != nil {
		return fmt.Errorf("install %s: %w", gv, err)
	}
	manager := i.server.AggregatedDiscoveryGroupManager
	if gv.Group == "" {
		manager = i.server.AggregatedLegacyDiscoveryGroupManager
	}
	manager.AddGroupVersion(gv.Group, apidiscoveryv2.APIVersionDiscovery{
		Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: gv.Version, Resources: listed,
	})
	place := aggregation.BuiltinPriority(gv)
	manager.SetGroupVersionPriority(metav1.GroupVersion{Group: gv.Group, Version: gv.Version}, int(place.Group), int(place.Version))
	return nil
}
