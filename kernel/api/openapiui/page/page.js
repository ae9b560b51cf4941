"use strict";
(() => {
  const group = document.getElementById("group");
  // Relative, for proxies that put a path before the API's.
  const api = new URL("../../", location.href);
  let documents = {};

  const tell = (text) => {
    const fault = document.getElementById("fault");
    fault.textContent = text;
    fault.hidden = !text;
  };

  // What has no place where requests cannot be sent.
  const reading = () => ({ wrapComponents: { authorizeBtn: () => () => null, AuthorizeBtnContainer: () => () => null, authorizeOperationBtn: () => () => null } });

  const show = () => {
    let name = "";
    try {
      name = decodeURIComponent(location.hash.slice(1));
    } catch { /* not one that is listed */ }
    if (!Object.hasOwn(documents, name)) {
      name = Object.hasOwn(documents, "api/v1") ? "api/v1" : group.value;
    }
    group.value = name;
    tell("");
    SwaggerUIBundle({
      url: new URL(documents[name].serverRelativeURL.replace(/^\/+/, ""), api).href,
      domNode: document.getElementById("document"),
      deepLinking: false,
      docExpansion: "none",
      defaultModelsExpandDepth: 0,
      queryConfigEnabled: false,
      validatorUrl: null,
      supportedSubmitMethods: [],
      persistAuthorization: false,
      plugins: [reading],
    });
  };

  const start = async () => {
    const answer = await fetch(new URL("openapi/v3", api), { headers: { Accept: "application/json" } });
    if (!answer.ok) {
      throw new Error(`${answer.status} ${answer.statusText}`);
    }
    documents = (await answer.json()).paths;
    for (const name of Object.keys(documents).sort()) {
      group.add(new Option(name, name));
    }
    group.disabled = false;
    group.addEventListener("change", () => { location.hash = encodeURIComponent(group.value); });
    window.addEventListener("hashchange", show);
    show();
  };

  start().catch((err) => tell(`The API's list of documents cannot be read: ${err.message}`));
})();
