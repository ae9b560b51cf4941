// Bundle sample-apiserver is Kubernetes' sample of an aggregated API server as a plugin of
// kind apiserver.
//
// # What it owns
//
// The way between sdk/apiserver/generic and the packages of k8s.io/sample-apiserver, which
// are as upstream has them: kinds, registry, admission plugin, storage in etcd. A real
// server would do the same with its own.
//
// Data passes: the kernel → its socket → the sample's handler chain → etcd. The sample's
// admission plugin reads Fischers through the kernel, as the plugin's own identity.
//
// It imports sdk, and must not import the kernel.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	"k8s.io/component-base/compatibility"
	"k8s.io/sample-apiserver/pkg/admission/plugin/banflunder"
	"k8s.io/sample-apiserver/pkg/admission/wardleinitializer"
	"k8s.io/sample-apiserver/pkg/apis/wardle/v1alpha1"
	sample "k8s.io/sample-apiserver/pkg/apiserver"
	"k8s.io/sample-apiserver/pkg/generated/clientset/versioned"
	"k8s.io/sample-apiserver/pkg/generated/informers/externalversions"
	generated "k8s.io/sample-apiserver/pkg/generated/openapi"

	"pintle.dev/pintle/sdk/apiserver"
	"pintle.dev/pintle/sdk/apiserver/generic"
)

func main() { apiserver.Serve(apiserver.Server{Name: "sample-apiserver", New: New}) }

// level is the version of the sample's own API, whose kinds end with 1.10.
const level = "1.2"

// New builds the sample's server.
func New(c *apiserver.Context) (apiserver.Instance, error) {
	var settings struct {
		EtcdServers []string `json:"etcdServers"`
	}
	d := json.NewDecoder(bytes.NewReader(c.Config))
	d.DisallowUnknownFields()
	if err := d.Decode(&settings); err != nil {
		return apiserver.Instance{}, fmt.Errorf("sample-apiserver configuration: %w; it has etcdServers", err)
	}
	config := genericapiserver.NewRecommendedConfig(sample.Codecs)
	config.EffectiveVersion = compatibility.NewEffectiveVersionFromString(level, level, level)
	config.FeatureGate = feature.DefaultFeatureGate
	config.ExternalAddress = "localhost:443"
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generated.GetOpenAPIDefinitions, openapi.NewDefinitionNamer(sample.Scheme))
	config.OpenAPIV3Config.Info.Title = "Wardle"
	generic.Configure(c, config)
	if err := store(settings.EtcdServers, config); err != nil {
		return apiserver.Instance{}, err
	}
	fischers, err := admit(c, config)
	if err != nil {
		return apiserver.Instance{}, err
	}
	made, err := (&sample.Config{GenericConfig: config}).Complete().New()
	if err != nil {
		return apiserver.Instance{}, fmt.Errorf("sample-apiserver: %w", err)
	}
	made.GenericAPIServer.AddPostStartHookOrDie("start-sample-server-informers", func(hook genericapiserver.PostStartHookContext) error {
		fischers.Start(hook.Done())
		return nil
	})
	return generic.Instance(made.GenericAPIServer), nil
}

// store keeps the sample's objects in etcd, as its own command does.
func store(servers []string, config *genericapiserver.RecommendedConfig) error {
	backend := storagebackend.NewDefaultConfig("/registry/wardle.example.com", sample.Codecs.LegacyCodec(v1alpha1.SchemeGroupVersion))
	backend.EncodeVersioner = runtime.NewMultiGroupVersioner(v1alpha1.SchemeGroupVersion, schema.GroupKind{Group: v1alpha1.GroupName})
	backend.Transport.ServerList = servers
	if err := options.NewEtcdOptions(backend).ApplyTo(&config.Config); err != nil {
		return fmt.Errorf("sample-apiserver: etcd: %w", err)
	}
	return nil
}

// admit has the admission plugins of any server, and the sample's, whose informers are
// to be started.
func admit(c *apiserver.Context, config *genericapiserver.RecommendedConfig) (externalversions.SharedInformerFactory, error) {
	reader, err := versioned.NewForConfig(config.LoopbackClientConfig)
	if err != nil {
		return nil, fmt.Errorf("sample-apiserver: client: %w", err)
	}
	parameters, err := dynamic.NewForConfig(c.RESTConfig)
	if err != nil {
		return nil, fmt.Errorf("sample-apiserver: dynamic client: %w", err)
	}
	fischers := externalversions.NewSharedInformerFactory(reader, 0)
	o := options.NewAdmissionOptions()
	banflunder.Register(o.Plugins)
	o.RecommendedPluginOrder = append(o.RecommendedPluginOrder, "BanFlunder")
	initializers := []admission.PluginInitializer{wardleinitializer.New(fischers)}
	if err := o.ApplyTo(&config.Config, config.SharedInformerFactory, c.Client, parameters, config.FeatureGate, config.EffectiveVersion, initializers...); err != nil {
		return nil, fmt.Errorf("sample-apiserver: admission: %w", err)
	}
	return fischers, nil
}
