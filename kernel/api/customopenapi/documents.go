package customopenapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/spec3"
)

// Service sends the documents.
type Service interface {
	UpdateGroupVersionLazy(group string, document cached.Value[*spec3.OpenAPI])
	DeleteGroupVersion(group string)
}

// documents are those of all versions that definitions serve.
type documents struct {
	service Service
	log     *slog.Logger

	mu       sync.Mutex
	versions map[schema.GroupVersion]*document
}

// Follow keeps service at what the definitions serve.
func Follow(definitions cache.SharedIndexInformer, service Service, log *slog.Logger) error {
	d := &documents{service: service, log: log, versions: map[schema.GroupVersion]*document{}}
	_, err := definitions.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.set(o.(*apiextensionsv1.CustomResourceDefinition)) },
		UpdateFunc: func(_, o any) { d.set(o.(*apiextensionsv1.CustomResourceDefinition)) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if crd, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
				d.update(crd.Name, crd.Spec.Group, nil)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("openapi of custom resources: %w", err)
	}
	return nil
}

func (d *documents) set(crd *apiextensionsv1.CustomResourceDefinition) {
	if !apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
		crd = &apiextensionsv1.CustomResourceDefinition{ObjectMeta: crd.ObjectMeta, Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: crd.Spec.Group}}
	}
	d.update(crd.Name, crd.Spec.Group, crd)
}

// update puts a definition into the documents of the versions that it serves, and takes
// it out of the others of its group, which never changes.
func (d *documents) update(name, group string, crd *apiextensionsv1.CustomResourceDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	served := map[schema.GroupVersion]bool{}
	if crd != nil {
		for _, v := range crd.Spec.Versions {
			if v.Served {
				served[schema.GroupVersion{Group: group, Version: v.Name}] = true
			}
		}
	}
	for gv := range served {
		doc, there := d.versions[gv]
		if !there {
			doc = &document{version: gv.Version, log: d.log, crds: map[string]*apiextensionsv1.CustomResourceDefinition{}}
			d.versions[gv] = doc
		}
		doc.put(crd)
		if !there {
			// The service holds its lock while it asks for a document, so none of a
			// document's is held here.
			d.service.UpdateGroupVersionLazy(path(gv), cached.Func(doc.get))
		}
	}
	for gv, doc := range d.versions {
		if gv.Group == group && !served[gv] && doc.remove(name) {
			delete(d.versions, gv)
			d.service.DeleteGroupVersion(path(gv))
		}
	}
}

func path(gv schema.GroupVersion) string { return "apis/" + gv.Group + "/" + gv.Version }

// document is that of one version of a group.
type document struct {
	version string
	log     *slog.Logger

	mu   sync.Mutex
	crds map[string]*apiextensionsv1.CustomResourceDefinition
	etag string // of the definitions; empty: it is not known
	// built is what was given away, and is emptied when it has been sent once: the
	// service keeps the pointer, and asks again only for the etag.
	built *spec3.OpenAPI
}

func (d *document) put(crd *apiextensionsv1.CustomResourceDefinition) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if old := d.crds[crd.Name]; old == nil || old.UID != crd.UID || old.Generation != crd.Generation {
		d.etag = ""
	}
	d.crds[crd.Name] = crd
}

// remove reports whether nothing is left.
func (d *document) remove(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.crds[name] != nil {
		delete(d.crds, name)
		d.etag = ""
	}
	return len(d.crds) == 0
}

func (d *document) get() (*spec3.OpenAPI, string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.etag != "" {
		*d.built = spec3.OpenAPI{}
		return d.built, d.etag, nil
	}
	sum := sha256.New()
	var specs []*spec3.OpenAPI
	var failures []error
	for _, name := range slices.Sorted(maps.Keys(d.crds)) {
		crd := d.crds[name]
		fmt.Fprintf(sum, "%s,%d;", crd.UID, crd.Generation)
		spec, err := builder.BuildOpenAPIV3(crd, d.version, builder.Options{IncludeSelectableFields: true})
		if err != nil {
			// The others of the group are described all the same.
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
			continue
		}
		specs = append(specs, spec)
	}
	if err := errors.Join(failures...); err != nil {
		d.log.Warn("custom resources have no OpenAPI document", "version", d.version, "error", err)
	}
	built := &spec3.OpenAPI{}
	if len(specs) > 0 {
		var err error
		if built, err = builder.MergeSpecsV3(specs...); err != nil {
			return nil, "", fmt.Errorf("openapi of custom resources of %s: %w", d.version, err)
		}
	}
	d.built, d.etag = built, hex.EncodeToString(sum.Sum(nil))
	return d.built, d.etag, nil
}
