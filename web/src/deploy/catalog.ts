import type { CatalogModel } from '../api/types';

/** The quantizations of one model, the largest first. */
export interface ModelGroup {
  /** Unique among the groups. */
  key: string;
  name: string;
  models: CatalogModel[];
}

function words(model: CatalogModel): string {
  const { name, path, architecture, quantization, base_model, group, engine, format } = model;
  return [name, path, architecture, quantization, base_model, group, engine, format].join(' ').toLowerCase();
}

/** Those in which every word of the search is found. */
export function searchModels(models: readonly CatalogModel[], search: string): CatalogModel[] {
  const wanted = search.toLowerCase().split(/\s+/).filter(Boolean);
  return models.filter((model) => {
    const text = words(model);
    return wanted.every((word) => text.includes(word));
  });
}

/** Beside each other what is the same model; one whose base model is not known stands alone. What has a problem is last. */
export function groupModels(models: readonly CatalogModel[]): ModelGroup[] {
  const groups = new Map<string, ModelGroup>();
  for (const model of models) {
    const key = model.group === '' ? `path ${model.path}` : `group ${model.group}`;
    const group = groups.get(key) ?? { key, name: model.group || model.base_model || model.name, models: [] };
    group.models.push(model);
    groups.set(key, group);
  }
  const usable = (group: ModelGroup) => group.models.some((model) => model.problem === '');
  const sorted = [...groups.values()].sort(
    (a, b) => Number(usable(b)) - Number(usable(a)) || a.name.localeCompare(b.name),
  );
  for (const { models: members } of sorted) {
    members.sort((a, b) => (b.file_bytes ?? 0) - (a.file_bytes ?? 0) || a.path.localeCompare(b.path));
  }
  return sorted;
}

/** The model that a text names, as the daemon would find it: by its path, else by its name when only one has it. */
export function findModel(models: readonly CatalogModel[], text: string): CatalogModel | null {
  const byPath = models.find((model) => model.path === text);
  if (byPath) return byPath;
  const byName = models.filter((model) => model.name === text);
  return byName.length === 1 ? (byName[0] ?? null) : null;
}

/** What tells a quantization from the others of its group. */
export function quantizationName(model: CatalogModel): string {
  return model.quantization || model.format || 'no file yet';
}
