// The documents of the API. Their types are made from docs/openapi.json (`npm run types`); here they only get short names.
// Sizes are whole bytes; null is unknown.
import type { components } from './types.gen';

type Schemas = components['schemas'];

export type Activity = Schemas['Activity'];
export type Budget = Schemas['Budget'];
export type BudgetDeployment = Schemas['BudgetDeployment'];
export type CalibrationRecord = Schemas['CalibrationRecord'];
export type Calibrations = Schemas['Calibrations'];
export type CatalogModel = Schemas['CatalogModel'];
export type Config = Schemas['Config'];
export type DeployRequest = Schemas['DeployRequest'];
export type Deployment = Schemas['Deployment'];
export type DeploymentChange = Schemas['DeploymentChange'];
export type Duration = Schemas['Duration'];
export type Estimate = Schemas['Estimate'];
export type Event = Schemas['Event'];
export type Failure = Schemas['Failure'];
export type Fit = Schemas['Fit'];
export type Health = Schemas['Health'];
export type Limit = Schemas['Limit'];
export type Measured = Schemas['Measured'];
export type Memory = Schemas['Memory'];
export type MemoryContainer = Schemas['MemoryContainer'];
export type MemoryProcesses = Schemas['MemoryProcesses'];
export type ModelInfo = Schemas['ModelInfo'];
export type Models = Schemas['Models'];
export type OomFloor = Schemas['OomFloor'];
export type Operation = Schemas['Operation'];
export type OperationStep = Schemas['OperationStep'];
export type Orphan = Schemas['Orphan'];
export type OwnerlessMemory = Schemas['OwnerlessMemory'];
export type Part = Schemas['Part'];
export type Plan = Schemas['Plan'];
export type PlannedSleep = Schemas['PlannedSleep'];
export type Plans = Schemas['Plans'];
export type Problem = Schemas['Problem'];
export type Process = Schemas['Process'];
export type Processes = Schemas['Processes'];
export type QuantizationOption = Schemas['QuantizationOption'];
export type Queue = Schemas['Queue'];
export type QueueEntry = Schemas['QueueEntry'];
export type Reach = Schemas['Reach'];
export type Setting = Schemas['Setting'];
export type SettingOption = Schemas['SettingOption'];
export type Version = Schemas['Version'];
export type Warning = Schemas['Warning'];
