package api

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/emicklei/go-restful/v3"
	apiextensionshelpers "k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdlisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	crdbuilder "k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/labels"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	builder2 "k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/cached"
	openapicommon "k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// documents builds the OpenAPI documents when they are first asked for, and
// keeps of them only what is sent: the specs themselves weigh several times
// their JSON.
type documents struct {
	definitions openapicommon.GetOpenAPIDefinitions
	namer       *apiopenapi.DefinitionNamer
	services    func() []*restful.WebService
	crds        crdlisters.CustomResourceDefinitionLister
	version     string
}

// pathHandler is what a mux of the API machinery offers.
type pathHandler interface {
	Handle(path string, handler http.Handler)
	HandlePrefix(path string, handler http.Handler)
}

// v3Config is made anew for each build: a builder writes into the definitions
// it reads, and what it returns shares maps with them.
func (d *documents) v3Config() *openapicommon.OpenAPIV3Config {
	c := genericapiserver.DefaultOpenAPIV3Config(d.definitions, d.namer)
	c.Info.Title, c.Info.Version = "Kubernetes", d.version
	c.SecuritySchemes = spec3.SecuritySchemes{"BearerToken": &spec3.SecurityScheme{SecuritySchemeProps: spec3.SecuritySchemeProps{
		Type: "apiKey", Name: "authorization", In: "header", Description: "Bearer Token authentication",
	}}}
	c.DefaultSecurity = []map[string][]string{{"BearerToken": {}}}
	c.CommonResponses = map[int]*spec3.Response{http.StatusUnauthorized: {ResponseProps: spec3.ResponseProps{Description: "Unauthorized"}}}
	return c
}

// install serves /openapi/v2 and /openapi/v3. The returned service takes the
// v3 documents of custom resources.
func (d *documents) install(mux pathHandler) (*handler3.OpenAPIService, error) {
	v3 := handler3.NewOpenAPIService()
	if err := v3.RegisterOpenAPIV3VersionedService("/openapi/v3", mux); err != nil {
		return nil, fmt.Errorf("openapi v3: %w", err)
	}
	byRoot := map[string][]*restful.WebService{}
	for _, ws := range d.services() {
		root := strings.Trim(ws.RootPath(), "/")
		byRoot[root] = append(byRoot[root], ws)
	}
	for root, services := range byRoot {
		v3.UpdateGroupVersionLazy(root, d.group(root, services))
	}
	v2 := handler.NewOpenAPIServiceLazy(d.swagger())
	v2.RegisterOpenAPIVersionedService("/openapi/v2", mux)
	return v3, nil
}

// group is the v3 document of the web services under one root. Its etag never
// changes, so the handler encodes it once and, holding its lock, asks again at
// each later request only for the etag: then the document is emptied, since
// the handler keeps its pointer.
func (d *documents) group(root string, services []*restful.WebService) cached.Value[*spec3.OpenAPI] {
	var built *spec3.OpenAPI
	return cached.Func(func() (*spec3.OpenAPI, string, error) {
		if built != nil {
			*built = spec3.OpenAPI{}
			return built, root, nil
		}
		doc, err := builder3.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), d.v3Config())
		if err != nil {
			return nil, "", fmt.Errorf("openapi v3 of %s: %w", root, err)
		}
		narrowKinds(doc, root)
		built = doc
		return doc, root, nil
	})
}

// narrowKinds keeps, for the meta types that are registered in every group,
// only this document's group and core, since the list would name them all.
func narrowKinds(doc *spec3.OpenAPI, root string) {
	var group, version string
	switch parts := strings.Split(root, "/"); {
	case len(parts) == 2 && parts[0] == "api":
		version = parts[1]
	case len(parts) == 3 && parts[0] == "apis":
		group, version = parts[1], parts[2]
	default:
		return
	}
	if doc.Components == nil {
		return
	}
	const key = "x-kubernetes-group-version-kind"
	for _, schema := range doc.Components.Schemas {
		kinds, ok := schema.Extensions[key].([]any)
		if !ok || len(kinds) < 2 {
			continue
		}
		var kept []any
		shared := true
		for _, k := range kinds {
			m, _ := k.(map[string]any)
			if m["kind"] != "WatchEvent" && m["kind"] != "DeleteOptions" {
				shared = false
				break
			}
			if (m["group"] == group && m["version"] == version) || (m["group"] == "" && m["version"] == "v1") {
				kept = append(kept, k)
			}
		}
		if shared && len(kept) > 0 {
			schema.Extensions[key] = kept
		}
	}
}

// swagger is the v2 document of built-in and custom resources. Its etag is a
// digest of the custom resources' generations; as with group, the document is
// emptied once it is encoded.
func (d *documents) swagger() cached.Value[*spec.Swagger] {
	var (
		last  string
		built *spec.Swagger
	)
	return cached.Func(func() (*spec.Swagger, string, error) {
		crds, err := d.established()
		if err != nil {
			return nil, "", err
		}
		sum := sha256.New()
		for _, crd := range crds {
			fmt.Fprintf(sum, "%s,%d;", crd.UID, crd.Generation)
		}
		etag := hex.EncodeToString(sum.Sum(nil))
		if etag == last {
			*built = spec.Swagger{}
			return built, etag, nil
		}
		doc, err := d.buildSwagger(crds)
		if err != nil {
			return nil, "", fmt.Errorf("openapi v2: %w", err)
		}
		last, built = etag, doc
		return doc, etag, nil
	})
}

func (d *documents) established() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := d.crds.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range all {
		if apiextensionshelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
			out = append(out, crd)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// v2Config says what the head of OpenAPI v2 has, and how it is built.
func (d *documents) v2Config() *openapicommon.Config {
	c := genericapiserver.DefaultOpenAPIConfig(d.definitions, d.namer)
	c.Info.Title, c.Info.Version = "Kubernetes", d.version
	c.SecurityDefinitions = &spec.SecurityDefinitions{"BearerToken": &spec.SecurityScheme{SecuritySchemeProps: spec.SecuritySchemeProps{
		Type: "apiKey", Name: "authorization", In: "header", Description: "Bearer Token authentication",
	}}}
	c.DefaultSecurity = []map[string][]string{{"BearerToken": {}}}
	c.CommonResponses = map[int]spec.Response{http.StatusUnauthorized: {ResponseProps: spec.ResponseProps{Description: "Unauthorized"}}}
	return c
}

func (d *documents) buildSwagger(crds []*apiextensionsv1.CustomResourceDefinition) (*spec.Swagger, error) {
	doc, err := builder2.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(d.services()), d.v2Config())
	if err != nil {
		return nil, err
	}
	doc.Definitions = handler.PruneDefaults(doc.Definitions)
	var custom []*spec.Swagger
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			s, err := crdbuilder.BuildOpenAPIV2(crd, v.Name, crdbuilder.Options{V2: true, IncludeSelectableFields: true})
			if err != nil {
				return nil, fmt.Errorf("custom resource %s %s: %w", crd.Name, v.Name, err)
			}
			s.Definitions = handler.PruneDefaults(s.Definitions)
			custom = append(custom, s)
		}
	}
	return crdbuilder.MergeSpecs(doc, custom...)
}
